"""The public names of ``flexchat.host``, for type checkers and for the module itself."""

from .assembly import (
    as_configured as as_configured,
    installed_plugins as installed_plugins,
    run_checks as run_checks,
)
from .calls.claim import STORED_RESULT as STORED_RESULT
from .calls.effects import Lease as Lease
from .calls.manager import ToolLike as ToolLike, ToolManager as ToolManager
from .config.document import (
    ConfigDocument as ConfigDocument,
    MAX_BYTES as MAX_BYTES,
    document_of as document_of,
    parse_document as parse_document,
    read_document as read_document,
    walk as walk,
)
from .config.including import with_included as with_included
from .config.keys import variable_value as variable_value
from .config.model import (
    Config as Config,
    ConversationsTable as ConversationsTable,
    LLMEntry as LLMEntry,
    LimitsTable as LimitsTable,
    ResponseRule as ResponseRule,
    RuleTools as RuleTools,
    StoreEntry as StoreEntry,
    ToolsTable as ToolsTable,
    duration_s as duration_s,
    own_keys as own_keys,
    read_since as read_since,
)
from .config.normalise import normalise as normalise
from .config.patterns import (
    NoEngineError as NoEngineError,
    PatternError as PatternError,
    compile_pattern as compile_pattern,
)
from .config.positions import KeyPath as KeyPath
from .config.reading import ReadConfig as ReadConfig, digest_of as digest_of, read_config as read_config
from .config.structure import structure as structure, structure_mapping as structure_mapping
from .config.variables import expand_variables as expand_variables
from .config.wording import (
    is_secret_name as is_secret_name,
    is_secret_path as is_secret_path,
    printable as printable,
    visible as visible,
    shortened as shortened,
    format_path as format_path,
)
from .config.yaml_reading import YamlError as YamlError, read_yaml as read_yaml
from .conversations.view import Conversations as Conversations, cost_by_rule as cost_by_rule
from .databases import Databases as Databases, databases_of as databases_of, open_databases as open_databases
from .domain import DEFAULT_TENANT as DEFAULT_TENANT, TurnEvent as TurnEvent, new_call_id as new_call_id
from .domain.copies import copied as copied
from .domain.journal import UNFINISHED as UNFINISHED
from .domain.messages import ReasoningPart as ReasoningPart, TextPart as TextPart
from .domain.history import (
    keep_walk as keep_walk,
    repair_history as repair_history,
    repair_slice as repair_slice,
    take_walk as take_walk,
)
from .domain.keys import key as key
from .domain.masking import Mask as Mask, secrets_of_environment as secrets_of_environment
from .domain.media import (
    attached_part as attached_part,
    checked_media as checked_media,
    detect_type as detect_type,
    describe_media as describe_media,
    in_brief as in_brief,
    record_of_media as record_of_media,
)
from .domain.codec import message_from_dict as message_from_dict, message_to_dict as message_to_dict
from .domain.questions import NOBODY as NOBODY
from .domain.rates import is_proven as is_proven, rate_interval as rate_interval
from .domain.tools import call_error_kind as call_error_kind
from .domain.text import counted as counted, scrub as scrub, scrub_json as scrub_json
from .errors import (
    ForgottenEventsError as ForgottenEventsError,
    ToolDefinitionError as ToolDefinitionError,
    UnknownLLMError as UnknownLLMError,
    UnknownNameError as UnknownNameError,
    UnknownToolFormatError as UnknownToolFormatError,
    did_you_mean as did_you_mean,
    json_error_message as json_error_message,
    with_hint as with_hint,
)
from .events.log import EventLog as EventLog
from .turn.questions import wait_for_answer as wait_for_answer
from .events.sink import Feed as Feed
from .files import path_exists as path_exists, read_file as read_file, refuse_other as refuse_other
from .lazy import attach_stub as attach_stub
from .llms.llm import Llms as Llms
from .plugin.call import (
    current_call as current_call,
    current_info as current_info,
    current_principal as current_principal,
    current_traceparent as current_traceparent,
    current_tracestate as current_tracestate,
    current_turn as current_turn,
    traceparent_here as traceparent_here,
)
from .plugin.foreign import contained as contained, error_name as error_name
from .plugin.host import ENTRY_POINT_GROUP as ENTRY_POINT_GROUP, GATES_GROUP as GATES_GROUP, PluginHost as PluginHost
from .request import MAX_KEY_CHARS as MAX_KEY_CHARS, is_key as is_key
from .schema.check import (
    ArgumentChecker as ArgumentChecker,
    not_finite as not_finite,
    size_problems as size_problems,
    value_problem as value_problem,
)
from .schema.engine import SchemaEngine as SchemaEngine, limited_work as limited_work
from .schema.limits import UncheckedError as UncheckedError, schema_problems as schema_problems
from .schema.patterns import NOT_BLANK as NOT_BLANK
from .schema.wording import label as label, sentence as sentence
from .tools.sources import ToolSources as ToolSources
from .tools.python_function import is_stand_in as is_stand_in, with_stand_in as with_stand_in
from .tools.results import as_json as as_json, for_the_model as for_the_model
from .turn.active import ActiveTurn as ActiveTurn
from .turn.answer import TOO_MANY_CALLS as TOO_MANY_CALLS
from .turn.engine import TurnEngine as TurnEngine
from .turn.questions import reply_problem as reply_problem
from .turn.rounds import (
    NextStep as NextStep,
    next_step as next_step,
    no_answer_reason as no_answer_reason,
    rounds as rounds,
)
from .turn.run import in_turn as in_turn, read_turn as read_turn
from .turn.template import substitute_variables as substitute_variables
from .endpoints import CIRCUIT_OPEN as CIRCUIT_OPEN
