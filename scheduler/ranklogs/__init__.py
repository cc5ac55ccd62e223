"""What the ranks of jobs write: pieces in object storage, their index in PostgreSQL. See docs/design/010."""
