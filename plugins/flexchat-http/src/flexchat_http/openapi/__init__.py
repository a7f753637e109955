"""Operations of an OpenAPI document as tools. Pure, except library.py (files), source.py and calling.py.

A document's way to tools:

library.py        the document and the files it refers to; follows references
  reading.py        bytes to JSON data; errors of documents
  yaml_reading.py   YAML 1.2 to JSON data
convert.py        the operations of a document, their names and their selection; their tools
  parameters.py     parameters and body as one object of arguments
  schemas.py        schemas as JSON Schema 2020-12
  fitting.py        a tool's schema, within what FlexChat accepts
  security.py       the server that requests are sent to, and the credentials they need

A call's way to a request:

plan.py           the data a tool stores from its document: plain JSON
request.py        a plan and arguments to a request

Integration with FlexChat:

source.py         the tool source: a document in a config
calling.py        the implementation type: sends a call's request
"""
