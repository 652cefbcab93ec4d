"""The training speech: sentences, teachers (synthesizers), speakers and recording conditions."""
