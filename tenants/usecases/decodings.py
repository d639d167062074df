"""How messages of topics are read: schemas, registries, and what is masked."""

from typing import Final

from contracts.registered_schemas import SchemaText
from contracts.shapes import BASE_URL_SHAPE, matching
from runtime.clock import epoch_ms
from tenants.credentials import sealed, unsealed
from tenants.decoding.decoder import Decoder
from tenants.decoding.reading import Reading
from tenants.decoding.registry import Asks, Registry, Schemas
from tenants.rules.decoding import PLAIN, TOPICS_MAX, Decoding, faults_of
from tenants.rules.errors import Conflict, Invalid
from tenants.rules.lifecycle import Fault, unfit
from tenants.rules.model import Caller, Instance
from tenants.rules.permissions import Permission
from tenants.rules.webhooks import fault_of_url
from tenants.store import audit, decodings
from tenants.store.decodings import RegistryRow
from tenants.store.engine import Store

_URL: Final = matching(BASE_URL_SHAPE)


class Decodings:
    """The use cases. Calls block, but `check`. `secret` is the deployment's: passwords are sealed with it."""

    def __init__(self, store: Store, secret: str | None, decoder: Decoder, schemas: Schemas) -> None:
        self._store, self._secret = store, secret
        self._decoder, self._schemas = decoder, schemas

    # --- registries -----------------------------------------------------------------------------

    def registry(self, instance: Instance) -> RegistryRow | None:
        """Where schemas of an instance are."""
        with self._store.read() as connection:
            return decodings.registry_of(connection, instance.id)

    def set_registry(
        self, caller: Caller, instance: Instance, url: str, user: str, password: str
    ) -> RegistryRow:
        """All of it anew: a password goes to no address that it was not given with.

        Raises: Invalid, Conflict.
        """
        wrong = fault_of_url(url)
        if _URL.match(url) is None:
            faults = [Fault("url", wrong or "must have a host, perhaps a port and a path, and no query")]
        else:
            faults = [unfit("url", wrong)] if wrong else []
        faults += [Fault("user", "must have no colon")] if ":" in user else []
        if faults:
            raise Invalid(faults)
        kept = ""
        if password:
            if self._secret is None:
                raise Conflict("this control plane has no deployment secret, which passwords are sealed with")
            kept = sealed(self._secret, _purpose(instance.id), password)
        row = RegistryRow(url, user, kept, epoch_ms())
        with self._store.write() as connection:
            decodings.put_registry(connection, instance.id, row)
            detail = f"{url}{' with a password' if password else ''}"
            audit.record_of(connection, caller, instance, "registry.set", detail, epoch_ms())
        return row

    def remove_registry(self, caller: Caller, instance: Instance) -> None:
        """Messages are decoded by it no more."""
        with self._store.write() as connection:
            if decodings.remove_registry(connection, instance.id):
                audit.record_of(connection, caller, instance, "registry.remove", "", epoch_ms())

    # --- topics ---------------------------------------------------------------------------------

    def decoding(self, instance: Instance, topic: str) -> Decoding:
        """How a topic is read."""
        with self._store.read() as connection:
            return decodings.decoding_of(connection, instance.id, topic) or PLAIN

    async def check(self, instance: Instance, decoding: Decoding) -> None:
        """Raises: Invalid for what cannot be used."""
        faults = faults_of(decoding)
        if faults:
            raise Invalid(faults)
        if decoding.kind is not None:
            text = SchemaText(decoding.kind.value, decoding.schema, message=decoding.message)
            problem = await self._decoder.check(instance.tenant, instance.id, text)
            if problem is not None:
                raise Invalid([unfit("schema", f"cannot be used: {problem}")])

    def set_decoding(self, caller: Caller, instance: Instance, topic: str, decoding: Decoding) -> None:
        """Have a topic read so, from the next view on. Raises: Conflict."""
        with self._store.write() as connection:
            is_new = decodings.decoding_of(connection, instance.id, topic) is None
            if is_new and decodings.count(connection, instance.id) >= TOPICS_MAX:
                raise Conflict(f"{TOPICS_MAX} topics have a way of reading, which is as many as may have one")
            decodings.put_decoding(connection, instance.id, topic, decoding)
            masked = [*decoding.masked_fields, *decoding.masked_headers, *(["the key"] * decoding.masks_key)]
            detail = f"{topic}: {decoding.kind or 'no schema'}; masked: {', '.join(masked) or 'nothing'}"
            audit.record_of(connection, caller, instance, "decoding.set", detail[:2_000], epoch_ms())

    def remove_decoding(self, caller: Caller, instance: Instance, topic: str) -> None:
        """Read as it was before anybody said how, with nothing masked."""
        with self._store.write() as connection:
            if decodings.remove_decoding(connection, instance.id, topic):
                audit.record_of(connection, caller, instance, "decoding.remove", topic, epoch_ms())

    def reading(self, caller: Caller, instance: Instance, topic: str) -> Reading:
        """How somebody sees a topic."""
        with self._store.read() as connection:
            decoding = decodings.decoding_of(connection, instance.id, topic) or PLAIN
            row = decodings.registry_of(connection, instance.id)
        return Reading(
            self._decoder,
            self._schemas,
            instance,
            decoding,
            None if row is None else self._opened(instance, row),
            asks=Asks(),
            is_masked=not caller.may(Permission.READ_MASKED),
        )

    def _opened(self, instance: Instance, row: RegistryRow) -> Registry:
        password = ""
        if row.password and self._secret is not None:
            # Of another deployment's secret nothing is left: the registry answers 401, which is told.
            password = unsealed(self._secret, _purpose(instance.id), row.password) or ""
        return Registry(instance.id, instance.tenant, row.url, row.user, password, row.revision)


def _purpose(instance_id: str) -> str:
    return f"schema-registry/{instance_id}"
