"""`portico pipeline`: jobs on Spark. Each module here holds the commands of one area."""

from ctl.command import Commands
from ctl.commands.pipeline import (
    activity,
    advise,
    bill,
    demo,
    forget,
    iceberg,
    jobs,
    lake,
    lake_repair,
    lake_upkeep,
    meter,
    mirror,
    schedule,
    submit,
    tables,
)

app = Commands()
for command in (
    *(jobs.jobs, mirror.mirror, advise.advise),
    *(bill.rollup, bill.bill, bill.close, bill.reconcile),
    *(lake.load, demo.demo, tables.tables, tables.sql, iceberg.iceberg),
    *(lake_upkeep.decode, lake_upkeep.redrive, lake_upkeep.compact, lake_upkeep.expire),
    *(lake_repair.backfill, lake_repair.audit, forget.forget),
):
    app.command()(command)
app.command(context_settings={"allow_interspersed_args": False})(submit.submit)
app.add_typer(bill.prices, name="prices")
app.add_typer(activity.activity, name="activity")
app.add_typer(meter.meter, name="meter")
app.add_typer(schedule.schedule, name="schedule")
