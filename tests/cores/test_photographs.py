"""The photographs and the image reader, against hand-made files, hand-computed pixels, and torchvision."""

from __future__ import annotations

import io
import random
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from fixtures.inputs import photographs

SIZES = {
    "astronaut": (512, 512),
    "camera": (512, 512),
    "chelsea": (300, 451),
    "coffee": (400, 600),
    "rocket": (427, 640),
}


def png16(path: Path, rows: list[list[tuple[int, ...]]]) -> Path:
    """A PNG with 16 bits a channel, written by hand: pixels of one value (grey) or three (RGB)."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    colour = {1: 0, 3: 2}[len(rows[0][0])]
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 16, colour, 0, 0, 0)
    lines = b"".join(b"\0" + b"".join(struct.pack(f">{len(pixel)}H", *pixel) for pixel in row) for row in rows)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(lines)), chunk(b"IEND", b""))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    return path


def close(got: Tensor, wanted: list[list[list[float]]]) -> bool:
    return torch.allclose(got, torch.tensor(wanted), atol=1e-6)


def test_the_photographs_are_in_the_wheel_and_licensed() -> None:
    licences = (Path(photographs.__file__).parent / "LICENCES.md").read_text()
    assert set(photographs.COLOUR | photographs.GREY) == set(SIZES)
    for name, size in SIZES.items():
        image = photographs.load(photographs.path(name))
        assert image.shape == (3, *size)
        assert image.dtype == torch.float32
        assert image.min() >= 0
        assert image.max() <= 1
        assert f"`{name}`" in licences


def test_an_unknown_photograph_names_those_there_are() -> None:
    with pytest.raises(KeyError, match="no photograph 'dog': there are astronaut, camera, chelsea, coffee, rocket"):
        photographs.path("dog")


def test_without_scikit_image_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photographs, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install scikit-image"):
        photographs.path("coffee")


def test_a_16_bit_grey_png_keeps_its_precision(tmp_path: Path) -> None:
    image = photographs.load(png16(tmp_path / "deep.png", [[(0,), (1,), (65535,)]]))
    assert close(image, [[[0.0, 1 / 65535, 1.0]]] * 3)
    assert image[0, 0, 1] > 0


def test_a_16_bit_rgb_png_is_read_in_its_colours(tmp_path: Path) -> None:
    image = photographs.load(png16(tmp_path / "deep.png", [[(65535, 0, 32896), (257, 514, 771)]]))
    wanted = torch.tensor([[[1.0, 257 / 65535]], [[0.0, 514 / 65535]], [[32896 / 65535, 771 / 65535]]])
    assert torch.allclose(image, wanted, atol=1 / 255)


@pytest.mark.parametrize(
    ("mode", "pixel", "wanted"),
    [
        ("L", 51, (0.2, 0.2, 0.2)),
        ("LA", (51, 0), (0.2, 0.2, 0.2)),
        ("1", 1, (1.0, 1.0, 1.0)),
        ("RGB", (255, 0, 51), (1.0, 0.0, 0.2)),
        ("RGBA", (255, 0, 51, 0), (1.0, 0.0, 0.2)),
    ],
)
def test_every_mode_of_a_1_by_1_image_becomes_rgb(
    tmp_path: Path, mode: str, pixel: int | tuple[int, ...], wanted: tuple[float, float, float]
) -> None:
    Image.new(mode, (1, 1), pixel).save(tmp_path / "one.png")
    image = photographs.load(tmp_path / "one.png")
    assert close(image, [[[value]] for value in wanted])
    assert close(photographs.resize(image, 2, 3), [[[value] * 3] * 2 for value in wanted])


def test_a_palette_image_shows_its_colours(tmp_path: Path) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([255, 0, 0, 0, 0, 255])
    image.putpixel((1, 0), 1)
    image.save(tmp_path / "palette.gif")
    assert close(photographs.load(tmp_path / "palette.gif"), [[[1.0, 0.0]], [[0.0, 0.0]], [[0.0, 1.0]]])


def test_a_cmyk_jpeg_becomes_rgb(tmp_path: Path) -> None:
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / "red.jpg")
    assert torch.allclose(photographs.load(tmp_path / "red.jpg")[:, 0, 0], torch.tensor([1.0, 0.0, 0.0]), atol=0.02)


def test_the_orientation_mark_of_a_camera_is_obeyed(tmp_path: Path) -> None:
    image = Image.new("RGB", (2, 1))
    image.putpixel((0, 0), (255, 255, 255))
    mark = Image.Exif()
    mark[0x0112] = 6  # to be shown turned clockwise by a quarter
    image.save(tmp_path / "turned.png", exif=mark)
    assert close(photographs.load(tmp_path / "turned.png"), [[[1.0], [0.0]]] * 3)


def test_an_open_file_is_read_and_named_in_errors() -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (3, 2)).save(buffer, "PNG")
    buffer.seek(0)
    assert photographs.load(buffer, "upload.png").shape == (3, 2, 3)
    with pytest.raises(photographs.UnreadableImageError, match=r"cannot read image upload\.png: no known image format"):
        photographs.load(io.BytesIO(b"no image"), "upload.png")


def damaged(folder: Path, kind: str) -> Path:
    """A file or folder that is no readable image."""
    path = folder / f"{kind}.png"
    whole = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    Image.fromarray(noise).save(whole, "PNG")
    contents = {
        "text": b"hello",
        "empty": b"",
        "cut": whole.getvalue()[:1500],
        "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n",
    }
    if kind == "folder":
        path.mkdir()
    elif kind == "float":
        path = path.with_suffix(".tiff")
        Image.new("F", (2, 2)).save(path)
    elif kind != "absent":
        path.write_bytes(contents[kind])
    return path


@pytest.mark.parametrize("kind", ["text", "empty", "cut", "postscript", "folder", "float", "absent"])
def test_an_unreadable_image_is_one_line_that_names_it_and_what_is_allowed(tmp_path: Path, kind: str) -> None:
    path = damaged(tmp_path, kind)
    with pytest.raises(photographs.UnreadableImageError) as caught:
        photographs.load(path)
    message = str(caught.value)
    assert message.startswith(f"cannot read image {path}: ")
    assert message.endswith("; allowed are PNG, JPEG, WEBP, BMP, TIFF, GIF files of 8 or 16 bits a channel")
    assert "\n" not in message


def test_resizing_and_normalising_are_torchvisions() -> None:
    from torchvision.transforms.functional import normalize, resize

    image = photographs.load(photographs.path("chelsea"))
    for height, width in ((64, 80), (300, 451), (520, 782)):
        ours = photographs.normalise(photographs.resize(image, height, width))
        theirs = normalize(
            resize(image, [height, width], antialias=True), mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]
        )
        assert torch.allclose(ours, theirs, atol=1e-5)


def test_a_batch_depends_on_the_seed_alone() -> None:
    batches = [photographs.batch(6, 40, 56, seed) for seed in (3, 3, 4)]
    assert batches[0].shape == (6, 3, 40, 56)
    assert batches[0].dtype == torch.float32
    assert torch.equal(batches[0], batches[1])
    differ = [not torch.equal(one, two) for one in batches[0] for two in batches[2]]
    assert all(differ)
    assert all(not torch.equal(batches[0][i], batches[0][j]) for i in range(6) for j in range(i))


def test_a_batch_lies_on_the_cpu_whatever_the_default_device() -> None:
    with torch.device("meta"):
        assert photographs.batch(2, 16, 16, 0).device.type == "cpu"


def test_a_crop_is_a_part_of_the_image_and_half_of_them_are_mirrored() -> None:
    height, width = 20, 50
    image = torch.arange(height * width, dtype=torch.float32).reshape(1, height, width).expand(3, -1, -1)
    mirrored = 0
    for seed in range(200):
        part = photographs.random_crop(image, 1.5, random.Random(seed))[0]
        step = 1 if part[0, 1] > part[0, 0] else -1
        mirrored += step < 0
        rows, columns = part.shape
        assert 10 <= rows <= height
        assert columns == round(1.5 * rows) or abs(columns - 1.5 * rows) <= 1
        first = int(part[0, 0])
        wanted = first + torch.arange(rows)[:, None] * width + step * torch.arange(columns)[None, :]
        assert torch.equal(part, wanted.float())
    assert 70 <= mirrored <= 130


@pytest.mark.parametrize(("height", "width", "rows", "columns"), [(4, 4, (0, 4), (3, 7)), (2, 5, (0, 4), (0, 10))])
def test_fitting_takes_the_largest_part_from_the_middle(
    height: int, width: int, rows: tuple[int, int], columns: tuple[int, int]
) -> None:
    image = torch.arange(120.0).reshape(3, 4, 10)
    part = image[:, slice(*rows), slice(*columns)]
    assert torch.allclose(photographs.fit(image, height, width), photographs.resize(part, height, width))


def test_a_1_by_1_image_fits_any_size() -> None:
    assert torch.equal(photographs.fit(torch.full((3, 1, 1), 0.5), 4, 6), torch.full((3, 4, 6), 0.5))


def test_a_crop_of_a_1_by_1_image_is_that_pixel() -> None:
    pixel = torch.full((3, 1, 1), 0.25)
    assert torch.equal(photographs.random_crop(pixel, 1.7, random.Random(0)), pixel)
