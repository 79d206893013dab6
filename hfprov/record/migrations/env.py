"""Alembic's entry: migrates over the connection that ``hfprov.record.migrate`` opened."""

from alembic import context

from hfprov.record.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite cannot alter most things in place
)
with context.begin_transaction():
    context.run_migrations()
