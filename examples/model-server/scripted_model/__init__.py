"""A model server without a model: it answers from scripts, the same to the same conversation.

It speaks the OpenAI chat completions and the Anthropic messages protocol, so that demonstrations and tests
can run a real agent where no provider can be reached. Its answers say nothing about any real model.
"""
