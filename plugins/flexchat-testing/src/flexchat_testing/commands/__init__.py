"""The commands flexchat new and flexchat plugins verify."""
