"""What somebody learns who has copies of the database and similar text, but no key."""
