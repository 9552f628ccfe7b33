from replica_audit.api.answers import Answers as Answers
from replica_audit.api.answers import Audit as Audit
from replica_audit.api.answers import audit as audit
from replica_audit.api.answers import read_batches as read_batches
from replica_audit.api.answers import read_metadata_log as read_metadata_log
from replica_audit.api.answers import read_records as read_records
from replica_audit.api.answers import register as register
from replica_audit.api.answers import show as show
from replica_audit.api.compared_quorum import ComparedQuorum as ComparedQuorum
from replica_audit.api.compared_quorum import quorum as quorum
from replica_audit.api.elected import PlannedElection as PlannedElection
from replica_audit.api.elected import elect as elect
from replica_audit.api.explained import Explained as Explained
from replica_audit.api.explained import explain as explain
from replica_audit.api.past import History as History
from replica_audit.api.past import history as history
from replica_audit.api.salvaged import Salvaged as Salvaged
from replica_audit.api.salvaged import salvage as salvage
from replica_audit.api.typed_table import Table as Table
from replica_audit.api.verified import Verified as Verified
from replica_audit.api.verified import verify as verify
from replica_audit.errors import EngineError as EngineError
from replica_audit.errors import InputError as InputError
from replica_audit.errors import ReplicaAuditError as ReplicaAuditError
from replica_audit.errors import UsageError as UsageError

__version__: str
