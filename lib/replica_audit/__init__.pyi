from replica_audit.api import Answers as Answers
from replica_audit.api import Audit as Audit
from replica_audit.api import audit as audit
from replica_audit.api import read_batches as read_batches
from replica_audit.api import read_metadata_log as read_metadata_log
from replica_audit.api import read_records as read_records
from replica_audit.api import show as show
from replica_audit.errors import EngineError as EngineError
from replica_audit.errors import InputError as InputError
from replica_audit.errors import ReplicaAuditError as ReplicaAuditError
from replica_audit.errors import UsageError as UsageError

__version__: str
