"""`portico admin`: what only the owner of the data directory may do."""

from ctl.command import Commands
from ctl.console_options import OperatorConsole
from ctl.output import Answer, in_facts

app = Commands()


@app.command("reset-password")
def reset_password(console: OperatorConsole, user: str = "admin") -> Answer:
    """Give a console user a new random password and end the user's sessions."""
    reset = console.call("POST", f"users/{user}/reset-password")
    return in_facts(reset, [("user", reset["user"]), ("password", f"{reset['password']}   (shown once)")])
