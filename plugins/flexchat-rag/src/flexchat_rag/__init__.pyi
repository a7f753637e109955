"""The public names of ``flexchat_rag``, for type checkers and for the module itself."""

from .ingest.pipeline import IngestOptions as IngestOptions, IngestReport as IngestReport, add_files as add_files
from .ingest.records import FieldMapping as FieldMapping
