"""Libraries in real databases: a SQLite file and, where PostgreSQL is installed, a cluster of the test run."""

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, NullPool, create_engine, text

from storage import VoiceLibrary, migrations
from storage.database import Database
from storage.models import Base, ErasureRow

BUSY_TIMEOUT = 10.0  # seconds


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The URL of a PostgreSQL database in a temporary cluster that listens on a socket in a private folder."""
    found = shutil.which("initdb") or next(map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb")), None)
    if found is None:
        pytest.skip("PostgreSQL's programs are not installed (Debian: apt-get install postgresql)")
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("PostgreSQL's driver is not installed (pip install 'psycopg[binary]')")
    programs = Path(found).resolve().parent
    # PostgreSQL does not run as root; its own user comes with Debian's package.
    user = "postgres" if os.geteuid() == 0 else None
    if user and user not in {entry.pw_name for entry in pwd.getpwall()}:
        pytest.skip("PostgreSQL does not run as root, and there is no user called postgres")
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        data = Path(folder, "data")
        if user:
            shutil.chown(folder, user)

        def run(program: str, *arguments: str) -> None:
            command = [str(programs / program), "-D", str(data), *arguments]
            # The output is not captured: the server would keep the pipe open, and the call would never return.
            output = Path(folder, f"{program}.out")
            with output.open("ab") as log:
                done = subprocess.run(command, stdout=log, stderr=log, user=user, cwd=folder, check=False)
            assert done.returncode == 0, output.read_text()

        run("initdb", "-U", "reprise", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        run("pg_ctl", "start", "-w", "-o", f"-c listen_addresses='' -k {folder} -F")
        try:
            yield f"postgresql://reprise@/postgres?host={folder}"
        finally:
            run("pg_ctl", "stop", "-m", "immediate", "-w")


def _with_driver(postgresql_server: str, database: str = "postgres") -> str:
    return postgresql_server.replace("postgresql:", "postgresql+psycopg:").replace("/postgres?", f"/{database}?")


@pytest.fixture
def empty_postgresql(postgresql_server: str) -> str:
    """The SQLAlchemy URL, with the driver, of a PostgreSQL database without tables."""
    url = _with_driver(postgresql_server)
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
    return url


@pytest.fixture(scope="session")
def migrated_postgresql(postgresql_server: str) -> Iterator[Engine]:
    """A PostgreSQL database with the tables of the head revision."""
    engine = create_engine(_with_driver(postgresql_server), isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        connection.execute(text("CREATE DATABASE migrated"))
    migrated = create_engine(_with_driver(postgresql_server, "migrated"))
    with migrated.begin() as connection:
        migrations.upgrade(connection)
    yield migrated
    migrated.dispose()


def empty_tables(connection: Connection) -> None:
    """Delete all rows but the one that every library has."""
    tables = [table.name for table in reversed(Base.metadata.sorted_tables)]
    statements = [f"DELETE FROM {name}" for name in tables if name != ErasureRow.__tablename__]
    driver = connection.connection.driver_connection
    if driver is not None and connection.dialect.name == "postgresql":
        driver.execute("; ".join(statements))  # in one message
        return
    for statement in statements:
        connection.exec_driver_sql(statement)


@pytest.fixture
def postgresql(migrated_postgresql: Engine) -> str:
    """The URL of a PostgreSQL database with the empty tables of the head revision.

    Emptying the tables takes a tenth of the time of a migration.
    """
    with migrated_postgresql.begin() as connection:
        empty_tables(connection)
    return migrated_postgresql.url.render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def sqlite_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A SQLite file with the tables of the head revision, opened once: each opened database compiles its queries."""
    database = Database.open(tmp_path_factory.mktemp("migrated") / "voices.sqlite", busy_timeout=BUSY_TIMEOUT)
    yield database
    database.close()


@pytest.fixture(scope="session")
def postgresql_database(migrated_postgresql: Engine) -> Iterator[Database]:
    """The PostgreSQL database with the tables of the head revision, opened once."""
    url = migrated_postgresql.url.render_as_string(hide_password=False)
    database = Database.open(url, busy_timeout=BUSY_TIMEOUT)
    yield database
    database.close()


@pytest.fixture
def sqlite(sqlite_database: Database) -> str:
    """The URL of a SQLite file with the empty tables of the head revision."""
    with sqlite_database.write() as session:
        empty_tables(session.connection())
    return f"sqlite:///{sqlite_database._location}"


@pytest.fixture
def empty_sqlite(tmp_path: Path) -> str:
    """The URL of a SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'new.sqlite'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty library; parametrized over the kinds of database."""
    return str(request.getfixturevalue(request.param))


@pytest.fixture(params=["empty_sqlite", "empty_postgresql"])
def empty_url(request: pytest.FixtureRequest) -> str:
    """The URL of a database without tables; parametrized over the kinds of database."""
    return str(request.getfixturevalue(request.param))


@pytest.fixture
def database(url: str, request: pytest.FixtureRequest) -> Database:
    """The empty library at `url`, which tests must not close."""
    opened = request.getfixturevalue("sqlite_database" if url.startswith("sqlite") else "postgresql_database")
    assert isinstance(opened, Database)
    return opened


@pytest.fixture
def library(database: Database) -> VoiceLibrary:
    return VoiceLibrary(database)
