"""`portico pipeline`: jobs on Spark. Each module here holds the commands of one area and `register`s them."""

from ctl.command import Commands
from ctl.commands.pipeline import (
    activity,
    advise,
    bill,
    demo,
    jobs,
    lake,
    lake_repair,
    lake_upkeep,
    meter,
    mirror,
)

app = Commands()
jobs.register(app)
mirror.register(app)
advise.register(app)
bill.register(app)
lake.register(app)
activity.register(app)
demo.register(app)
lake_upkeep.register(app)
lake_repair.register(app)
meter.register(app)
