"""Rows of what e-mail addresses were asked, by which further questions are bounded."""

from sqlalchemy import Connection, delete, insert, or_, select, true

from tenants.rules.mails import DAY_MS, REFUSED_MS, Asked
from tenants.store import schema


def asked(connection: Connection, address_key: str, now_ms: int) -> list[Asked]:
    """What was asked within a day, and what this address has refused."""
    table = schema.mail_questions
    of_day = table.c.at_ms > now_ms - DAY_MS
    its = (table.c.address_key == address_key) & (table.c.refused == true())
    query = select(table.c.tenant, table.c.address_key, table.c.at_ms, table.c.refused)
    return [Asked(*row) for row in connection.execute(query.where(or_(of_day, its)))]


def add(connection: Connection, question_id: str, new: Asked) -> None:
    """A further one; what bounds nothing any more is forgotten."""
    table = schema.mail_questions
    ended = table.c.at_ms <= new.at_ms - DAY_MS
    refusal_ended = table.c.at_ms <= new.at_ms - REFUSED_MS
    connection.execute(delete(table).where(ended, or_(table.c.refused != true(), refusal_ended)))
    connection.execute(insert(table).values(id=question_id, **new._asdict()))


def refuse(connection: Connection, question_id: str, tenant: str, address_key: str, now_ms: int) -> None:
    """The address wants nothing of who asked, also if the question is forgotten by now."""
    table = schema.mail_questions
    connection.execute(delete(table).where(table.c.id == question_id))
    add(connection, question_id, Asked(tenant, address_key, now_ms, refused=True))
