"""The tools of a context, one file each; ``definition.py`` says what a tool is."""
