"""Bring a database to the schema of this version, once, whoever comes first."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from hfprov.errors import RecordError
from hfprov.record.database import Database
from hfprov.record.schema import HEAD

MIGRATIONS = Path(__file__).parent / "migrations"

_TOPIC = 0x68660001  # of Database.serialise


def hfprov_version() -> str:
    """The version of the installed hfprov; ``unknown`` when it runs uninstalled."""
    try:
        return metadata.version("hfprov")
    except metadata.PackageNotFoundError:
        return "unknown"


def upgrade(database: Database) -> None:
    """Create or upgrade the schema. RecordError when the database is newer, or is not a record."""
    with database.read() as connection:
        if _version(connection) == HEAD:
            return
    with database.write() as connection:
        database.serialise(connection, _TOPIC)
        version = _version(connection)  # another process may have been quicker
        if version == HEAD:
            return
        _refuse_strangers(connection, database.name, version)
        _migrate(connection)


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _refuse_strangers(connection: Connection, name: str, version: str | None) -> None:
    if version is None and inspect(connection).get_table_names():
        raise RecordError(
            f"The database '{name}' belongs to another program.",
            hint="Name another file or database for the record.",
        )
    if version is not None and not any(MIGRATIONS.glob(f"versions/{version}_*.py")):
        raise RecordError(
            f"The record '{name}' has schema version '{version}'; "
            f"this hfprov {hfprov_version()} knows versions up to '{HEAD}'.",
            hint="Use the newer hfprov that wrote it.",
        )


def _migrate(connection: Connection) -> None:
    # Alembic is imported here only: it takes longer to load than most commands take to run.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
