"""The provider "rehearsal": no model, only words. From a message to an answer:

plan.py           cuts the message into requests and chooses a tool for each
choose_tool.py      how well a tool's words fit a request
fill_arguments.py   arguments from the request, by the tool's schema
  parameters.py       what a parameter asks for
  candidates.py       what in the text could be meant for a parameter
  text_values.py      free text: what is left when everything else is taken
  values.py           numbers, quotes, names, addresses … in a text
  expressions.py      arithmetic in a text
  dates.py            dates and times of day in a text
  time_zones.py       time zones and the cities that stand for them
  fits.py             whether a value keeps a schema
compose_answer.py  the answer, from the results

words.py and vocabulary.py say which words count as the same.
"""
