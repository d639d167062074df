"""What users of an instance ask for by Kafka's own tools. Gateways bring it: they have looked who may."""

from contracts.access_orders import AccessAnswer, AccessOrder
from tenants.rules.errors import Refused, no_instance
from tenants.rules.model import Caller
from tenants.rules.permissions import Role
from tenants.store import instances
from tenants.store.engine import Store
from tenants.usecases.instances import Instances


class UserOrders:
    """Each is carried out whole, or not at all."""

    def __init__(self, store: Store, cases: Instances) -> None:
        self._store = store
        self._cases = cases

    def carry_out(self, order: AccessOrder) -> AccessAnswer:
        """A refusal is an answer."""
        try:
            with self._store.read() as connection:
                instance = instances.by_id(connection, order.instance_id)
            if instance is None:
                raise no_instance(order.instance_id)
            caller = Caller("kafka", order.principal, instance.tenant, Role.OWNER, order.address)
            if order.filters:
                changed, deleted = self._cases.delete_acls(caller, order.instance_id, order.filters)
                return AccessAnswer(revision=changed.revision, deleted=deleted)
            return AccessAnswer(revision=self._changed(caller, order))
        except Refused as refusal:
            return AccessAnswer(refusal=refusal.detail)

    def _changed(self, caller: Caller, order: AccessOrder) -> int:
        """The instance's revision from now on."""
        if order.credentials or order.forgotten:
            return self._cases.set_credentials(caller, order).revision
        if order.subscriptions:
            return self._cases.subscribe(caller, order.instance_id, order.subscriptions).revision
        return self._cases.add_acls(caller, order.instance_id, order.acls).revision
