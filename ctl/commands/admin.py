"""`portico admin`: what only the owner of the data directory may do."""

from ctl.command import Commands
from ctl.errors import CommandError
from ctl.options import DEFAULT_DATA_DIR, DataDir
from ctl.output import Answer, in_facts

app = Commands()
_ACTOR = "machine:portico admin"


@app.command("reset-password")
def reset_password(user: str = "admin", data_dir: DataDir = DEFAULT_DATA_DIR) -> Answer:
    """Give a console user a new random password and end the user's sessions.

    In the database itself: no key is needed, and no running console.
    """
    # Only this command of its kind needs a database's packages.
    from ctl.backup.places import database_of
    from ctl.stack.layout import Layout
    from tenants.remembered import CallerMemory
    from tenants.rules.errors import Refused
    from tenants.shared_limits import LoginLimits
    from tenants.store import migrating
    from tenants.store.engine import Store
    from tenants.usecases.accounts import Accounts

    url, file = database_of(Layout(data_dir), None)
    if file is not None and not file.exists():
        raise CommandError(f"no console's database in {data_dir}: name the stack's --data-dir")
    store = Store.attach(url)
    try:
        with store.read() as connection:
            migrating.check(connection)
        accounts = Accounts(store, LoginLimits(None), CallerMemory(None, None))
        password = accounts.reset_password(_ACTOR, user)
    except Refused as refusal:
        raise CommandError(refusal.detail) from refusal
    except migrating.SchemaIsOther as other:
        raise CommandError(f"{other}: start the stack with this release first") from other
    finally:
        store.close()
    reset = {"user": user, "password": password}
    return in_facts(reset, [("user", user), ("password", f"{password}   (shown once)")])
