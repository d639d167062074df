"""`admin reset-password` is the machine's owner: it needs no key, no running console."""

import json
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ctl.backup.places import database_of
from ctl.errors import CommandError
from ctl.main import command_line
from ctl.stack.layout import Layout
from tenants.config import ConsoleConfig
from tenants.remembered import CallerMemory
from tenants.rules.errors import Unauthenticated
from tenants.rules.vports import parse_vip
from tenants.shared_limits import LoginLimits
from tenants.store import schema
from tenants.store.engine import Store
from tenants.usecases.accounts import Accounts, Browser

HERE = Browser("127.0.0.1", "")


def accounts_of(store: Store) -> Accounts:
    return Accounts(store, LoginLimits(None), CallerMemory(None, None))


def reset(data_dir: Path, *arguments: str) -> tuple[int, str, BaseException | None]:
    command = ["admin", "reset-password", "--data-dir", str(data_dir), "--json", *arguments]
    done = CliRunner().invoke(command_line("admin"), command)
    return done.exit_code, done.stdout, done.exception


def test_it_works_where_the_machines_own_key_is_gone(tmp_path: Path) -> None:
    url, file = database_of(Layout(tmp_path), None)
    assert file is not None
    file.parent.mkdir(parents=True)
    config = ConsoleConfig(
        database_url=url,
        vip_pool=parse_vip("127.0.0.1", 21000, 21019),
        default_cluster_id="builtin-1",
        secret=None,
        admin_password="the first password",
    )
    with closing(Store.open(url)) as store:
        accounts = accounts_of(store)
        accounts.bootstrap("local operator key of this test", config)
        token = accounts.log_in("admin", "the first password", HERE).token
        with store.write() as connection:
            connection.execute(schema.api_keys.delete())
        code, said, _ = reset(tmp_path)
        assert code == 0
        assert accounts.caller_of_session(token, None) is None
        assert accounts.log_in("admin", json.loads(said)["password"], HERE).user.name == "admin"
        with pytest.raises(Unauthenticated):
            accounts.log_in("admin", "the first password", HERE)
        [newest] = [one for one in accounts.audit_page(None, None, 50) if "reset" in one.entry.action]
        assert newest.entry.actor == "machine:portico admin"
        # The next start has the key again.
        accounts.bootstrap("local operator key of this test", config)
        assert accounts.caller_of_key("local operator key of this test", None) is not None


def test_where_there_is_no_stack_or_no_such_user_it_says_so(tmp_path: Path) -> None:
    _, _, nothing = reset(tmp_path)
    assert isinstance(nothing, CommandError)
    assert "no console's database" in nothing.sentence
    url, file = database_of(Layout(tmp_path), None)
    assert file is not None
    assert not file.exists()
    file.parent.mkdir(parents=True)
    Store.open(url).close()
    _, _, nobody = reset(tmp_path, "--user", "nobody")
    assert isinstance(nobody, CommandError)
    assert "there is no user 'nobody'" in nobody.sentence
