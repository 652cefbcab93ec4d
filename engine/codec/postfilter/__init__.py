"""A postfilter that speaks voiced sounds anew, for decoders too small to speak without roughness.

Voiced sounds get a pulse in each period, with the spectral envelope of the decoded sound, smoothed over time (WORLD:
Morise et al., 2016). High frequencies keep a part of the decoded sound, as breath; everything else stays as it is.
Pitch and envelopes may be adapted to a speaker, of whom there is a clip.
"""

from engine.codec.postfilter.adaptation import SpeakerAdaptation
from engine.codec.postfilter.filter import Postfilter, PostfilterStream

__all__ = ["Postfilter", "PostfilterStream", "SpeakerAdaptation"]
