"""Portraits of voices: reduced, stored with the voice, and included in its file."""

import io

import numpy as np
import pytest
from PIL import Image

from engine.errors import InvalidInput
from engine.voice import MAX_PORTRAIT, Voice
from storage import Storage
from storage.errors import VoiceNotFound, VoiceProtected
from storage.voices.sample_voices import install_samples
from studio.pictures.portraits import SIDE, make_portrait, portrait_url
from tests.support.fake_engine import voice


def photograph(format: str = "JPEG", size: tuple[int, int] = (900, 600)) -> bytes:
    """Return a picture with a blue left and a red right half, and an EXIF rotation to the right."""
    picture = Image.new("RGB", size, "red")
    picture.paste("blue", (0, 0, size[0] // 2, size[1]))
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "secret place"
    file = io.BytesIO()
    picture.save(file, format, exif=exif)
    return file.getvalue()


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
def test_portrait_is_a_small_upright_square_without_exif(format: str) -> None:
    made = make_portrait(photograph(format))
    with Image.open(io.BytesIO(made)) as picture:
        assert (picture.format, picture.size) == ("WEBP", (SIDE, SIDE))
        assert not picture.getexif()
        pixels = np.asarray(picture.convert("RGB"))
    top, bottom = (pixels[y, SIDE // 2] for y in (20, SIDE - 20))
    assert b"secret" not in made
    assert top[2] > 200 > top[0]
    assert bottom[0] > 200 > bottom[2]
    assert portrait_url(made).startswith("data:image/webp;base64,")


def test_grey_picture_of_16_bits_keeps_its_shades() -> None:
    file = io.BytesIO()
    Image.new("I;16", (400, 400), 100 * 256).save(file, "PNG")
    with Image.open(io.BytesIO(make_portrait(file.getvalue()))) as picture:
        assert picture.convert("L").getpixel((SIDE // 2, SIDE // 2)) == pytest.approx(100, abs=3)


def test_invalid_picture_is_rejected() -> None:
    gif = io.BytesIO()
    Image.new("RGB", (9, 9)).save(gif, "GIF")
    for damaged in (b"", b"no picture", photograph()[:200], gif.getvalue()):
        with pytest.raises(InvalidInput, match="JPEG, PNG or WebP"):
            make_portrait(damaged)
    large = io.BytesIO()
    Image.new("1", (10_000, 6_000)).save(large, "PNG")
    with pytest.raises(InvalidInput, match="50 megapixels"):
        make_portrait(large.getvalue())
    with pytest.raises(InvalidInput, match="64 KB"):
        Voice("Ada", voice("Ada").references, "codec", portrait=b"RIFF1234WEBP" + bytes(MAX_PORTRAIT))


def test_portrait_is_stored_exported_and_deleted_with_its_voice(storage: Storage) -> None:
    install_samples(storage.voices)
    ada, picture = storage.voices.add(voice("Ada"), owner="ada").id, make_portrait(photograph())
    storage.portraits.put(ada, make_portrait(photograph("PNG", (10, 10))), owner="ada")
    storage.portraits.put(ada, picture, owner="ada")
    assert storage.portraits.all(owner="ada") == {ada: picture}
    with pytest.raises(VoiceNotFound):
        storage.portraits.put(ada, picture, owner="ben")
    with pytest.raises(VoiceProtected):
        storage.portraits.put(storage.voices.find("Clara").id, picture, owner="ada")

    file = storage.voices.export_voice(ada, owner="ada")
    assert Voice.from_bytes(file).portrait == picture
    copy = storage.voices.import_voice(file, owner="ben").id
    double = storage.voices.duplicate(ada, owner="ada").id
    assert storage.portraits.all(owner="ben") == {copy: picture}
    assert set(storage.portraits.all(owner="ada")) == {ada, double}

    storage.portraits.put(ada, b"", owner="ada")
    assert ada not in storage.portraits.all(owner="ada")
    storage.delete_owner("ben")
    assert storage.portraits.all(owner="ben") == {}
