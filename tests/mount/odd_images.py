"""JPEG files of every kind that data sets hold, sound, odd and broken, and what shufflefs-check --decode says of each.

Needs Pillow 10.2 or later, which writes restart markers. make() gives {name: (bytes, kinds)}; `kinds` are those that
must be told, and no others are; one with `|` stands for either.
"""
import gzip
import hashlib
import io
import struct

try:
    from PIL import Image, ImageOps, __version__
    MISSING = None if tuple(int(part) for part in __version__.split(".")[:2]) >= (10, 2) else \
        "needs Pillow 10.2 or later, not " + __version__
except ImportError:
    MISSING = "needs Pillow 10.2 or later"

SIZE = (96, 64)
SOI, SCAN, END = b"\xff\xd8", 0xda, b"\xff\xd9"
FRAMES = (0xc0, 0xc2)
BROKEN = "image-truncated|image-damaged|image-undecodable"


def picture(size=SIZE):
    """Four colours that run into each other."""
    corners = Image.new("RGB", (2, 2))
    corners.putdata([(220, 60, 40), (50, 190, 70), (40, 70, 210), (230, 200, 90)])
    return corners.resize(size, Image.Resampling.BILINEAR)


def encode(image=None, kind="JPEG", **how):
    out = io.BytesIO()
    if kind == "JPEG":
        how = {"quality": 90, "subsampling": "4:2:0", **how}
    (image or picture()).save(out, kind, **how)
    return out.getvalue()


def segment(marker, body):
    return struct.pack(">BBH", 0xff, marker, len(body) + 2) + body


def orientation(value, order="<", at=8, entries=1):
    """An APP1 with that one entry; `at` is where it says that its folder begins."""
    start = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, at)
    return segment(0xe1, b"Exif\0\0" + start + struct.pack(order + "HHHIHHI", entries, 0x112, 3, 1, value, 0, 0))


def put_in(data, more, at=2):
    return data[:at] + more + data[at:]


def find(data, *markers):
    at = 2
    while data[at + 1] not in markers:
        at += 2 + int.from_bytes(data[at + 2:at + 4], "big")
    return at


def scan_start(data):
    at = find(data, SCAN)
    return at + 2 + int.from_bytes(data[at + 2:at + 4], "big")


def resized(data, width, height):
    """As its header says."""
    at = find(data, *FRAMES) + 5
    return data[:at] + struct.pack(">HH", height, width) + data[at + 4:]


def spoiled(data):
    """Wrong bytes in the middle of the scan that neither make nor break a marker."""
    wrong = bytearray(data)
    middle = (scan_start(data) + len(data)) // 2
    for at in range(middle, middle + 40):
        if 0xff not in (data[at - 1], data[at], data[at] ^ 0x55):
            wrong[at] ^= 0x55
    return bytes(wrong)


def ycck():
    """As Adobe writes it: all four inverted, and the marker says so."""
    planes = [*ImageOps.invert(picture()).convert("YCbCr").split(), Image.new("L", SIZE, 255)]
    data = bytearray(encode(Image.merge("CMYK", [ImageOps.invert(plane) for plane in planes]), subsampling="4:4:4"))
    data[find(data, 0xee) + 15] = 2
    return bytes(data)


def scan_bomb():
    """A few bytes a scan, each of which is a pass over 16 million pixels."""
    data = encode(Image.new("L", (4096, 4096), 128), progressive=True, quality=50)
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * 2000 + END


def sound(base):
    cmyk = Image.merge("CMYK", [*ImageOps.invert(picture()).split(), Image.linear_gradient("L").resize(SIZE)])
    grey = picture().convert("L")
    files = {
        "444": encode(subsampling="4:4:4"), "422": encode(subsampling="4:2:2"), "420": base,
        "progressive": encode(progressive=True), "optimized": encode(optimize=True), "low": encode(quality=20),
        "restart": encode(restart_marker_blocks=4), "restart-rows": encode(restart_marker_rows=1),
        "rgb": encode(keep_rgb=True, subsampling="4:4:4"),
        "1x1": encode(picture((1, 1))), "7x5": encode(picture((7, 5))), "17x16": encode(picture((17, 16))),
        "227x149": encode(picture((227, 149))), "227x149-422": encode(picture((227, 149)), subsampling="4:2:2"),
        "wide": encode(picture((2000, 30))), "tall": encode(picture((30, 2000))),
        "photo": encode(picture((1000, 750))),
        "comment": put_in(base, segment(0xfe, bytes(65533))), "fill": put_in(base, b"\xff" * 9),
        "trailing": base + hashlib.shake_256(b"tail").digest(5000), "two": base + encode(picture((16, 16))),
        "exif-0": put_in(base, orientation(0)), "exif-1": put_in(base, orientation(1)),
        "exif-9": put_in(base, orientation(9)), "exif-outside": put_in(base, orientation(6, at=0x7fffffff)),
        "exif-many": put_in(base, orientation(1, entries=65535)),
        "exif-short": put_in(base, segment(0xe1, b"Exif\0\0II*\0")),
    }
    rows = {name: (data, []) for name, data in files.items()}
    rows.update({"grey": (encode(grey), ["image-grey"]), "grey-progressive": (encode(grey, progressive=True), ["image-grey"]),
                 "cmyk": (encode(cmyk, subsampling="4:4:4"), ["image-cmyk"]), "ycck": (ycck(), ["image-cmyk"])})
    for n in range(2, 9):
        rows["exif-%d" % n] = put_in(base, orientation(n)), ["image-rotated"]
    rows["exif-6-big"] = put_in(base, orientation(6, ">")), ["image-rotated"]
    rows["exif-6-after-app0"] = put_in(base, orientation(6), 20), ["image-rotated"]
    return rows


def broken(base):
    progressive, restart = encode(progressive=True), encode(restart_marker_blocks=4)
    return {
        "truncated": (base[:len(base) * 6 // 10], ["image-truncated"]),
        "truncated-progressive": (progressive[:len(progressive) * 6 // 10], ["image-truncated"]),
        "no-end": (base[:-2], ["image-truncated"]),
        "header-only": (base[:scan_start(base)], ["image-truncated"]),
        "spoiled": (spoiled(encode(picture((227, 149)))), ["image-damaged"]),
        "restart-lost": (restart.replace(b"\xff\xd1", b"", 1), ["image-damaged"]),
        "png": (encode(kind="PNG"), ["image-wrong-format"]),
        "gif": (encode(kind="GIF"), ["image-wrong-format"]),
        "webp": (encode(kind="WEBP"), ["image-wrong-format"]),
        "tiff": (encode(kind="TIFF"), ["image-wrong-format"]),
        "bmp": (encode(kind="BMP"), ["image-wrong-format"]),
        "gzip": (gzip.compress(base), ["image-wrong-format"]),
        "empty": (b"", ["image-undecodable"]),
        "random": (hashlib.shake_256(b"noise").digest(4096), ["image-undecodable"]),
        "start-only": (SOI, [BROKEN]), "start-and-end": (SOI + END, [BROKEN]),
        "cut-in-header": (base[:find(base, 0xc4)], [BROKEN]),
        "leading": (b"garbage!" + base, ["image-undecodable"]),
        "zero-width": (resized(base, 0, 64), ["image-undecodable"]),
        "huge": (resized(base, 65500, 65500), ["image-refused"]),
        "huge-progressive": (resized(progressive, 65500, 65500), ["image-refused"]),
        "scan-bomb": (scan_bomb(), ["image-refused"]),
    }


def make():
    base = encode()
    return {**sound(base), **broken(base)}
