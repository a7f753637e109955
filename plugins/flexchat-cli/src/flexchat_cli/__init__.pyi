"""The public names of ``flexchat_cli``, for type checkers and for the module itself."""

from .context import CommandContext as CommandContext
from .conversations_store import (
    complete_conversation as complete_conversation,
    conversation_store as conversation_store,
    find_conversation as find_conversation,
    short_id as short_id,
    tenant_option as tenant_option,
)
from .check import check_config as check_config, find_check_problems as find_check_problems
from .tool_costs import BYTES_PER_TOKEN as BYTES_PER_TOKEN, rule_cost as rule_cost, tokens_of as tokens_of
from .editor_schema import config_schema as config_schema
from .context import find_config as find_config
from .turns import cost_of_steps as cost_of_steps, rounds_of as rounds_of
from .logs import (
    TurnLog as TurnLog,
    current_request as current_request,
    log_options as log_options,
    show_log as show_log,
)
from .terminal import limit_retry_notes as limit_retry_notes
from .context import report_notes as report_notes
from .parameters import (
    FILE_NAME as FILE_NAME,
    TEXT as TEXT,
    argument as argument,
    command as command,
    limit_option as limit_option,
)
from .questions import Questions as Questions, fields_of as fields_of
from .terminal import Style as Style, Terminal as Terminal, one_line as one_line
from .tool_arguments import read_arguments as read_arguments
from .tools import find_tool as find_tool, tool_name as tool_name, call_arguments as call_arguments
from .context import (
    FAILED as FAILED,
    INTERRUPTED as INTERRUPTED,
    OK as OK,
    PENDING as PENDING,
    UNUSABLE as UNUSABLE,
    UsageError as UsageError,
    user_name as user_name,
)
