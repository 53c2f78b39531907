"""Shards of every kind that a tar can be, sound, odd and broken, each with the answer a right reader comes to.

KINDS maps a name to a function that makes a Tar. What is put into it says in the same row what becomes of it: a field
of its sample, a problem, or both. Made of the stdlib alone, block by block, as most of it no program writes any more.
"""
import gzip
import hashlib
import os
import shutil
import subprocess

import tars

BLOCK = tars.BLOCK
ZERO = bytes(BLOCK)
# Problems of a member that is not there afterwards; with the others it is.
LEFT_OUT = {"litter", "metadata", "no-extension", "long-extension", "duplicate-field", "link", "not-a-file", "sparse",
            "truncated"}


def raw(text):
    return text if isinstance(text, bytes) else os.fsencode(text)


def noise(name, size):
    return hashlib.shake_256(raw(name)).digest(size)


# Ways of writing a member's header.
def head(name, size, kind=b"0", link=b"", magic=b"ustar\00000", prefix=b"", size_field=None):
    """One header block, of any dialect."""
    block = bytearray(BLOCK)
    assert len(name) <= 100 and len(link) <= 100 and len(prefix) <= 155
    block[0:len(name)] = name
    block[100:124] = b"0000644\x000000000\x000000000\0"
    block[124:136] = size_field or b"%011o\0" % size
    block[136:148] = b"%011o\0" % tars.MTIME
    block[156:157] = kind
    block[157:157 + len(link)] = link
    block[257:257 + len(magic)] = magic
    block[345:345 + len(prefix)] = prefix
    return tars.checked(block)


def ustar(name, size, kind=b"0", link=b""):
    prefix = b""
    if len(name) > 100:
        at = name.index(b"/", len(name) - 101)
        prefix, name = name[:at], name[at + 1:]
    return head(name, size, kind, link, prefix=prefix)


def v7(name, size, kind=b"0", link=b""):
    return head(name, size, b"\0" if kind == b"0" else kind, link, magic=b"")


def star(name, size, kind=b"0", link=b""):
    """Schily's: a prefix of 131 bytes, and `tar` in the last four."""
    at = name.index(b"/", max(0, len(name) - 101)) if len(name) > 100 else -1
    block = bytearray(head(name[at + 1:], size, kind, link, magic=b"ustar\00000", prefix=name[:max(0, at)]))
    block[476:500] = b"%011o %011o " % (tars.MTIME, tars.MTIME)
    block[508:512] = b"tar\0"
    return tars.checked(block)


def gnu(name, size, kind=b"0", link=b""):
    blocks = b""
    for text, letter in ((link, b"K"), (name, b"L")):
        if len(text) > 100:
            blocks += head(b"././@LongLink", len(text) + 1, letter, magic=b"ustar  \0") + tars.padded(text + b"\0")
    return blocks + head(name[:100], size, kind, link[:100], magic=b"ustar  \0")


def records(pairs):
    text = b""
    for key, value in pairs:
        body = b" " + raw(key) + b"=" + raw(value) + b"\n"
        length = len(body) + 1
        while length != len(b"%d" % length) + len(body):
            length = len(b"%d" % length) + len(body)
        text += b"%d" % length + body
    return text


def extended(pairs, letter=b"x", name=b"PaxHeaders/x"):
    text = records(pairs)
    return head(name, len(text), letter) + tars.padded(text)


def pax(*pairs, always=True):
    """A PAX header before the member; its name in one too where ustar has no room or the name is not ASCII."""
    def write(name, size, kind=b"0", link=b""):
        more = list(pairs)
        odd = len(name) > 100 or not name.isascii()
        if odd:
            try:
                name.decode()
            except UnicodeDecodeError:
                more.insert(0, ("hdrcharset", "BINARY"))
            more.append(("path", name))
        if len(link) > 100 or not link.isascii():
            more.append(("linkpath", link))
        blocks = extended(more) if more or always else b""
        return blocks + head(name[:100], size, kind, link[:100])
    return write


def base256(size, length=12):
    return b"\x80" + size.to_bytes(length - 1, "big")


class Tar:
    """What was put in, and what shall be seen of it."""

    def __init__(self, how=ustar):
        self.how, self.blocks, self.samples, self.problems = how, [], [], []
        self.data = {}          # name as stored -> bytes, of what a reader of any kind finds
        self.links = set()      # those that are hard links
        self.end = tars.END     # what follows the members
        self.change = None      # of the whole file's bytes, at the end
        self.agree = True       # tarfile, tar and bsdtar see the same names and bytes
        self.suffix = ".tar"

    def put(self, name, data=None, *, kind=b"0", link=b"", how=None, blocks=None, says=None, field=None, folder=False,
            stop=False):
        """One member, `says` its problem; `field` is (key, extension) where these are not the name's own. `blocks`
        stand for all that is written of it. After `stop` nothing that is put in is seen."""
        name, link = raw(name), raw(link)
        if data is None:
            data = b"" if link or kind not in (b"0", b"\0", b"7") else noise(name, 300 + 257 * len(self.blocks) % 1200)
        stored = b"" if link else data
        self.blocks.append(blocks if blocks is not None else
                           (how or self.how)(name, len(stored), kind, link) + tars.padded(stored))
        if getattr(self, "stopped", False):
            return self
        self.stopped = stop
        if says:
            self.problems.append((says, name))
        if folder or kind == b"5":
            return self
        if says in LEFT_OUT:
            return self
        self.data[name] = data
        if link:
            self.links.add(name)
        folder, slash, base = name.rpartition(b"/")
        stem, _, extension = base.partition(b".")
        key, extension = (raw(field[0]), raw(field[1])) if field else (folder + slash + stem, extension.lower())
        if not self.samples or self.samples[-1][0] != key:
            self.samples.append((key, {}))
        self.samples[-1][1][extension.decode()] = data
        return self

    def all(self, names, **how):
        for name in names.split():
            self.put(name, **how)
        return self

    def lay(self, block):
        """Blocks that are no member's."""
        self.blocks.append(block)
        return self

    def ends(self, says=None, end=None, change=None):
        """What is wrong with the shard as a whole."""
        if says:
            self.problems.append((says, None))
            self.agree = False
        self.end = self.end if end is None else end
        self.change = change
        return self

    def apart(self):
        """Other readers do otherwise, and may."""
        self.agree = False
        return self

    def bytes(self):
        data = b"".join(self.blocks) + self.end
        return self.change(data) if self.change else data

    def write(self, folder, name):
        return tars.write_file(os.path.join(str(folder), name + self.suffix), self.bytes())


AB = "a.jpg a.cls b.jpg b.cls"
KINDS = {}


def kind(make):
    KINDS[make.__name__] = make
    return make


# Names, and the ways of writing them.
@kind
def plain(): return Tar().all("0.jpg 0.cls 1.jpg 1.cls 2.jpg 2.cls")


@kind
def dot_slash():
    tar = Tar(gnu).put("./", kind=b"5").put("./n01/", kind=b"5")
    for n in ("n01", "n02"):
        tar.put("./%s/a.jpg" % n, field=(n + "/a", "jpg")).put("./%s/a.cls" % n, field=(n + "/a", "cls"))
    return tar.ends(end=bytes(-len(b"".join(tar.blocks)) % 10240 or 10240))


@kind
def dotted_folders():
    return Tar().all("a.b/c.jpg a.b/c.cls v1.0/x/d.jpg").put("a.b/c", says="no-extension")


@kind
def several_dots(): return Tar().all("x.jpg x.seg.png x.left.depth.npy y.tar.gz")


@kind
def upper_case(): return Tar().all("A.JPG A.Cls a.JPEG a.CLS")


@kind
def odd_names():
    tar = Tar()
    for name in ("a b.jpg", "-rf.jpg", "it's \"q\".jpg", "back\\slash.jpg", "100%s.jpg", "new\nline.jpg", "tab\t.jpg"):
        tar.put(name)
    return tar


@kind
def dots_and_slashes():
    return Tar().put(".hidden.jpg", says="no-extension").put("end.jpg.", says="no-extension") \
        .put("a//b.jpg", field=("a/b", "jpg")).put("a/./b.cls", field=("a/b", "cls")).apart()


@kind
def long_extension(): return Tar(gnu).put("a.jpg").put("b." + "e" * 200).put("c." + "e" * 201, says="long-extension")


@kind
def pax_mtime(): return Tar(pax(("mtime", "1600000000.25"))).all(AB)


@kind
def pax_long(): return Tar(pax(always=False)).all("{0}a.jpg {0}a.cls {1}.jpg".format("deep/" * 60, "k" * 300))


@kind
def pax_size():
    """Size 0 in the header, as for members of more than 8 GiB; the true one in a record."""
    data = noise("pax size", 700)
    return Tar().put("a.jpg", data, blocks=extended([("size", "700")]) + head(b"a.jpg", 0) + tars.padded(data)) \
        .all("a.cls b.jpg b.cls")


@kind
def pax_size_wins():
    """Another size in the header than in the record, which counts."""
    data = noise("pax size", 700)
    return Tar().put("a.jpg", data, blocks=extended([("size", "700")]) + head(b"a.jpg", 5) + tars.padded(data)) \
        .all("a.cls b.jpg")


@kind
def pax_global(): return Tar().lay(extended([("comment", "0" * 40)], b"g", b"pax_global_header")).all(AB)


def pax_global_that_counts(*pairs):
    """libarchive passes over it; POSIX, GNU tar and tarfile let it count for all that follow."""
    tar = Tar().put("0.jpg").lay(extended(pairs, b"g", b"pax_global_header")).all(AB).apart()
    tar.problems.append(("global-header", None))
    return tar


@kind
def pax_global_path(): return pax_global_that_counts(("comment", "c"), ("path", "x.jpg"))


@kind
def pax_global_size(): return pax_global_that_counts(("size", "1"))


@kind
def pax_unknown_records():
    return Tar(pax(("VENDOR.thing", "x"), ("LIBARCHIVE.creationtime", "1"), ("comment", "c"))).all(AB)


@kind
def gnu_long():
    deep = "deep/" * 60
    tar = Tar(gnu).all(f"{deep}a.jpg {deep}a.cls")
    return tar.put("b.jpg", tar.data[raw(deep + "a.jpg")], kind=b"1", link=deep + "a.jpg")


@kind
def gnu_long_with_pax():
    """Some writers put a PAX header (times) between a GNU long name and its member."""
    name, data = raw("deep/" * 30 + "a.jpg"), noise("mixed", 400)
    blocks = head(b"././@LongLink", len(name) + 1, b"L", magic=b"ustar  \0") + tars.padded(name + b"\0") + \
        extended([("mtime", "1600000000.25")]) + head(name[:100], len(data)) + tars.padded(data)
    return Tar().put(name, data, blocks=blocks).put("b.jpg")


@kind
def very_long():
    """Longer than any path that Linux opens."""
    name = "/".join(["d" * 200] * 25)
    return Tar(gnu).put(name + "/a.jpg").put(name + "/a.cls", how=pax(always=False))


@kind
def ustar_prefix():
    tar = Tar()
    for length in (100, 101, 155, 255, 256):
        base = min(100, length if length <= 100 else length - 2)
        front = "" if length <= 100 else "p" * (length - base - 1) + "/"
        for extension in ("jpg", "cls"):
            tar.put(front + "%03d" % length + "n" * (base - 4 - len(extension)) + "." + extension)
    return tar


@kind
def star_prefix(): return Tar(star).all("s/" * 60 + "a.jpg " + "s/" * 60 + "a.cls b.jpg")


@kind
def v7_headers(): return Tar(v7).all(AB)


@kind
def base256_numbers():
    """Sizes and times in binary, as GNU tar writes what octal digits cannot hold."""
    def write(name, size, kind=b"0", link=b""):
        block = bytearray(head(name, size, kind, link, magic=b"ustar  \0", size_field=base256(size)))
        block[136:148] = b"\xff" * 11 + b"\x00"     # before 1970
        return tars.checked(block)
    return Tar(write).all(AB)


@kind
def utf8(): return Tar().all("caf\u00e9.jpg caf\u00e9.cls cafe\u0301.jpg \u72ac/\u732b.jpg")


@kind
def utf8_pax(): return Tar(pax(("mtime", "1.5"))).all("caf\u00e9.jpg caf\u00e9.cls cafe\u0301.jpg \u72ac/\u732b.jpg")


@kind
def non_utf8(): return Tar().all("caf\udce9.jpg caf\udce9.cls \udcff\udcfe/\udc80.jpg")


@kind
def non_utf8_pax(): return Tar(pax(("mtime", "1.5"))).all("caf\udce9.jpg caf\udce9.cls \udcff\udcfe/\udc80.jpg")


@kind
def unsafe_path():
    tar = Tar()
    for name, key, field in (("/abs/a.jpg", "abs/a", "jpg"), ("/abs/a.cls", "abs/a", "cls"), ("../b.jpg", "b", "jpg"),
                             ("../b.cls", "b", "cls"), ("x/../../c.jpg", "x/c", "jpg")):
        tar.put(name, says="unsafe-path", field=(key, field))
    return tar


# Grouping.
@kind
def macos():
    return Tar().put("__index__", says="metadata").put("._a.jpg", says="litter").put("a.jpg") \
        .put("._a.cls", says="litter").put("a.cls").put("d/b.jpg").put("d/._b.cls", says="litter").put("d/b.cls")


@kind
def split():
    tar = Tar().all("a.jpg b.jpg")
    return tar.put("a.cls", says="split-sample").put("b.cls", says="split-sample").put("a.jpg", b"again",
                                                                                      says="split-sample") \
        .put("a.cls", b"again").apart()


@kind
def duplicate():
    return Tar().put("a.jpg").put("a.jpg", b"second", says="duplicate-field").put("a.cls").put("b.jpg") \
        .put("b.JPG", b"second", says="duplicate-field").put("b.cls")


# What is no plain file.
@kind
def hard_link():
    tar = Tar().put("./a.jpg", field=("a", "jpg")).put("./a.cls", field=("a", "cls"))
    tar.put("./b.jpg", tar.data[b"./a.jpg"], kind=b"1", link="./a.jpg", field=("b", "jpg"))
    tar.put("./b.cls", field=("b", "cls")).put("./c.jpg", kind=b"1", link="./d.jpg", says="link")
    return tar.put("./d.jpg", field=("d", "jpg")).put("./e.jpg", kind=b"1", link="./none.jpg", says="link")


@kind
def hard_link_with_body():
    """POSIX lets a PAX hard link have the bytes, too, for readers without the target."""
    tar = Tar().put("a.jpg")
    data = tar.data[b"a.jpg"]
    return tar.put("b.jpg", data, blocks=extended([("mtime", "1.5")]) + head(b"b.jpg", len(data), b"1", b"a.jpg") +
                   tars.padded(data)).put("b.cls").apart()


@kind
def hard_link_with_bytes_of_its_own():
    """What stands in the shard counts, not the target."""
    return Tar().put("a.jpg").put("b.jpg", b"other", blocks=extended([("mtime", "1.5")]) + head(b"b.jpg", 5, b"1", b"a.jpg")
                                  + tars.padded(b"other")).put("b.cls").apart()


@kind
def hard_link_not_utf8():
    tar = Tar().put("caf\udce9.jpg")
    data = tar.data[raw("caf\udce9.jpg")]
    return tar.put("b.jpg", data, kind=b"1", link="caf\udce9.jpg") \
        .put("c.jpg", data, kind=b"1", link="caf\udce9.jpg", how=pax(("hdrcharset", "BINARY")))


@kind
def symlink():
    return Tar().all("a.jpg a.cls b.cls").put("b.jpg", kind=b"2", link="a.jpg", says="link") \
        .put("c.jpg", kind=b"2", link="/etc/passwd", says="link")


@kind
def not_a_file():
    return Tar().put("a.jpg").put("a.fifo", kind=b"6", says="not-a-file").put("a.chr", kind=b"3", says="not-a-file") \
        .put("a.blk", kind=b"4", says="not-a-file").put("a.cls")


@kind
def contiguous(): return Tar().put("a.jpg", kind=b"7").put("a.cls")


@kind
def volume_header(): return Tar(gnu).lay(head(b"volume 1", 0, b"V", magic=b"ustar  \0")).all(AB).apart()


@kind
def solaris_acl():
    return Tar().lay(head(b"acl", 20, b"A") + tars.padded(b"2000000\0user::rwx,o:")).all("a.jpg a.cls") \
        .apart()


@kind
def solaris_extended(): return Tar().put("a.jpg", b"data", blocks=extended([("mtime", "1.5")], b"X") + head(b"a.jpg", 4) +
                                         tars.padded(b"data")).put("a.cls")


@kind
def dump_folder():
    """GNU tar's incremental archives: a folder whose data is the list of its files."""
    return Tar(gnu).put("d/", b"Ya.jpg\0\0", kind=b"D", folder=True).all("d/a.jpg d/a.cls").apart()


@kind
def folder_with_a_size():
    """POSIX: how much it may hold. There is no data."""
    return Tar().put("a.jpg").put("d/", blocks=head(b"d/", 700, b"5"), folder=True).put("d/b.jpg").apart()


@kind
def folder_with_data():
    """Against POSIX; GNU tar skips it, and tarfile and libarchive take it for a header."""
    return Tar().put("a.jpg").put("d/", folder=True, stop=True, blocks=head(b"d/", 700, b"5") +
                                  tars.padded(noise("d", 700))).put("b.jpg").ends("corrupt-header")


@kind
def other_kinds():
    """GNU's list of long names, the rest of a file of another volume, and kinds that nobody knows."""
    tar = Tar(gnu).put("a.jpg")
    for letter in (b"N", b"M", b"Q"):
        tar.put(b"odd" + letter + b".jpg", b"o" * 700, kind=letter, says="not-a-file")
    return tar.put("a.cls").apart()


@kind
def sparse():
    return Tar().all("a.jpg a.cls").put("b.npy", blocks=tars.sparse_member(b"b.npy", b"d" * 1024, 5120),
                                        says="sparse").put("b.cls")


@kind
def sparse_by_real_size():
    """Schily's: another size than what is stored, larger than all that follows."""
    return Tar().put("a.jpg").put("b.npy", b"d" * 700, how=pax(("SCHILY.realsize", "51200")), says="sparse") \
        .put("c.jpg").apart()


def sparse_pax(version):
    """GNU tar's PAX ways: the map in records that repeat, in one, or before the data."""
    body = b"d" * 1024
    common = [("GNU.sparse.size", "5120"), ("GNU.sparse.realsize", "5120"), ("GNU.sparse.name", "b.npy")]
    if version == "0.0":
        pairs = [("GNU.sparse.size", "5120"), ("GNU.sparse.numblocks", "1"), ("GNU.sparse.offset", "4096"),
                 ("GNU.sparse.numbytes", "1024")]
    elif version == "0.1":
        pairs = common[:1] + [("GNU.sparse.numblocks", "1"), ("GNU.sparse.map", "4096,1024"), common[2]]
    else:
        pairs = [("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), *common[1:]]
        body = tars.padded(b"1\n4096\n1024\n") + body
    name = b"b.npy" if version == "0.0" else b"GNUSparseFile.1/b.npy"
    return extended(pairs) + head(name, len(body)) + tars.padded(body)


def sparse_by_pax(version):
    return Tar().all("a.jpg a.cls").put("b.npy", blocks=sparse_pax(version), says="sparse").put("b.cls")


@kind
def sparse_pax_0_0(): return sparse_by_pax("0.0")


@kind
def sparse_pax_0_1(): return sparse_by_pax("0.1")


@kind
def sparse_pax_1_0(): return sparse_by_pax("1.0")


@kind
def empty_member():
    return Tar().put("a.jpg").put("a.txt", b"", says="empty").put("b.jpg", b"", says="empty").put("b.cls")


@kind
def sizes():
    tar = Tar()
    for size in (1, 511, 512, 513, 1024):
        tar.put("%d.bin" % size, noise(str(size), size))
    return tar


@kind
def many():
    tar = Tar()
    for i in range(2000):
        tar.put("%05d.txt" % i, noise(str(i), 5 + i % 16)).put("%05d.cls" % i, b"%d" % i)
    return tar


# Ends, and damage.
@kind
def no_trailer(): return Tar().all(AB).ends("no-trailer", b"")


@kind
def no_padding():
    return Tar().all("a.jpg").put("a.cls", b"7").ends("no-trailer", b"", lambda data: data[:-500])


@kind
def lone_zero_block_at_the_end(): return Tar().all(AB).ends("no-trailer", ZERO)


@kind
def lone_zero_block(): return Tar().all("a.jpg a.cls").lay(ZERO).all("b.jpg b.cls").ends("lone-zero-block")


@kind
def two_zero_blocks():
    return Tar().put("a.jpg").put("a.cls", stop=True).lay(tars.END).all("b.jpg b.cls").ends("trailing-data")


@kind
def truncated_data():
    tar = Tar().all("a.jpg a.cls").put("b.jpg", says="truncated")
    return tar.ends(end=b"", change=lambda data: data[:len(data) - len(tar.blocks[2]) + BLOCK + 100]).apart()


@kind
def truncated_large():
    return Tar().all("a.jpg a.cls b.cls").put("b.jpg", noise("b", 1 << 20), says="truncated") \
        .ends(end=b"", change=lambda data: data[:700000]).apart()


@kind
def truncated_header():
    tar = Tar().all("a.jpg a.cls").put("b.jpg", stop=True).put("b.cls")
    return tar.ends("truncated", b"", lambda data: data[:len(data) - len(tar.blocks[3]) + 200])


@kind
def bad_checksum():
    tar = Tar().put("a.jpg").put("a.cls", stop=True).all("b.jpg b.cls")
    tar.blocks[2] = b"\x63" + tar.blocks[2][1:]
    return tar.ends("corrupt-header")


@kind
def bad_size():
    tar = Tar().put("a.jpg").put("a.cls", stop=True).all("b.jpg")
    data = tar.blocks[2][BLOCK:]
    tar.blocks[2] = head(b"b.jpg", 0, size_field=b"00000000zzz\0") + data
    tar.problems.append(("corrupt-header", b"b.jpg"))
    return tar.apart()


@kind
def no_members(): return Tar()


@kind
def zero_length(): return Tar().ends("not-a-tar", b"")


@kind
def random(): return Tar().ends("not-a-tar", noise("random", 65536))


def compressed(pack, suffix):
    tar = Tar().apart()
    tar.suffix = suffix
    return tar.all(AB).ends("compressed", change=pack)


@kind
def gzipped(): return compressed(gzip.compress, ".tar.gz")


@kind
def gzip_named_tar(): return compressed(gzip.compress, ".tar")


@kind
def zstandard():
    if not shutil.which("zstd"):
        return None
    return compressed(lambda data: subprocess.run(["zstd", "-qc"], input=data, capture_output=True, check=True).stdout,
                      ".tar.zst")
