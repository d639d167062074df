"""The console as a command's parameter: made of the options that say where it is and for whom.

Apart from the client, which the load tests use without what tables and options need.
"""

from typing import Annotated

from ctl.command import Made
from ctl.console_client import Console
from ctl.options import DEFAULT_DATA_DIR, DataDir, Tenant


def _for_tenant(tenant: Tenant = None, data_dir: DataDir = DEFAULT_DATA_DIR) -> Console:
    return Console.of(data_dir, tenant)


def _for_operators(data_dir: DataDir = DEFAULT_DATA_DIR) -> Console:
    return Console.of(data_dir)


TenantConsole = Annotated[Console, Made(_for_tenant)]
OperatorConsole = Annotated[Console, Made(_for_operators)]
