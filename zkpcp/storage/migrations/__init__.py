"""The schema's history, as Alembic scripts in portable DDL."""
