"""The training speech: sentences, the teachers that speak them, speakers, recording conditions."""
