/* What can be wrong, in words. */
#include "kinds.h"

#define ERROR  true
#define REMARK false

/* An error is what loses samples or bytes, or what other readers of the same shards see
 * differently. A remark is what a healthy data set may have. */
static const struct {
    const char *name; /* NULL: the walk's own */
    bool error;
    const char *meaning;
} kinds[CHECK_KINDS] = {
    [INDEX_LITTER] = {NULL, REMARK, "._NAME, as macOS leaves them; left out"},
    [INDEX_METADATA] = {NULL, REMARK, "__NAME__; left out"},
    [INDEX_NO_EXTENSION] = {NULL, REMARK, "a name that gives no field; left out"},
    [INDEX_LONG_EXTENSION] = {NULL, ERROR, "an extension of more than 200 bytes; left out"},
    [INDEX_UNSAFE_PATH] = {NULL, REMARK, "an absolute path, or one with ..; kept without that"},
    [INDEX_SPLIT_SAMPLE] = {NULL, ERROR,
                            "a sample's members do not stand side by side: it is two samples"},
    [INDEX_DUPLICATE_FIELD] = {NULL, ERROR, "the same field twice in a sample; the first counts"},
    [INDEX_LINK] = {NULL, ERROR, "a link to nothing that can be read here; left out"},
    [INDEX_NOT_A_FILE] = {NULL, REMARK, "a fifo, a device, an unknown kind; left out"},
    [INDEX_SPARSE] = {NULL, ERROR, "a sparse member; left out. Pack it without holes"},
    [INDEX_EMPTY] = {NULL, REMARK, "zero bytes; kept"},
    [INDEX_TRUNCATED] = {NULL, ERROR, "the shard ends inside a member; what follows is lost"},
    [INDEX_CORRUPT_HEADER] = {NULL, ERROR, "a broken header; what follows is not read"},
    [INDEX_GLOBAL_HEADER] = {NULL, ERROR,
                             "one PAX header gives all that follow a path, a size or the like; "
                             "other readers apply it, here each member's own counts"},
    [INDEX_NO_TRAILER] = {NULL, ERROR,
                          "no end of archive: its writer may have stopped early; all is kept"},
    [INDEX_LONE_ZERO_BLOCK] = {NULL, ERROR,
                               "a single zero block: most readers stop there; read on here"},
    [INDEX_TRAILING_DATA] = {NULL, ERROR, "more after the end of the archive; not read"},
    [INDEX_COMPRESSED] = {NULL, REMARK,
                          "a compressed shard: read from its unpacked copy, if it has one"},
    [INDEX_CORRUPT_STREAM] = {NULL, ERROR,
                              "a compressed shard that breaks off or contradicts itself"},
    [INDEX_NOT_A_TAR] = {NULL, ERROR, "no tar; left out"},
    [INDEX_FIELD_MISSING] = {NULL, ERROR, "a sample that lacks one of fields=; left out"},
    [INDEX_NO_LABEL] = {NULL, ERROR, "a sample without a label where others have one"},
    [CHECK_UNREADABLE] = {"unreadable", ERROR, "a shard, or a member of one, that cannot be read"},
    [CHECK_IMAGE_TRUNCATED] = {"image-truncated", ERROR, "ends early: its lower part is grey"},
    [CHECK_IMAGE_DAMAGED] = {"image-damaged", ERROR,
                             "the decoder goes on after a fault, with wrong pixels"},
    [CHECK_IMAGE_UNDECODABLE] = {"image-undecodable", ERROR, "no picture comes of it"},
    [CHECK_IMAGE_WRONG_FORMAT] = {"image-wrong-format", ERROR,
                                  "another format than its extension says"},
    [CHECK_IMAGE_REFUSED] = {"image-refused", ERROR,
                             "too large to be decoded by default, or made to take long"},
    [CHECK_IMAGE_OTHER_FORMAT] = {"image-other-format", REMARK,
                                  "neither JPEG nor PNG; not looked into"},
    [CHECK_IMAGE_CMYK] = {"image-cmyk", REMARK, "four inks, converted to RGB without a profile"},
    [CHECK_IMAGE_ROTATED] = {"image-rotated", REMARK,
                             "an EXIF orientation, which few loaders apply"},
    [CHECK_IMAGE_GREY] = {"image-grey", REMARK, "one channel, which becomes three equal ones"},
    [CHECK_EMPTY_RANK] = {"empty-rank", ERROR, "a rank without a sample: others wait for it"},
    [CHECK_LAST_BATCH_OF_ONE] = {"last-batch-of-one", ERROR,
                                 "BatchNorm fails on one sample in training"},
    [CHECK_UNEVEN_RANKS] = {"uneven-ranks", REMARK,
                            "remainder=keep: for evaluation, with no collective call in a step"},
    [CHECK_SPLIT_WRONG] = {"split-wrong", ERROR, "the split is not what it should be"},
    [CHECK_OTHER_DATA] = {"other-data", ERROR, "other shards than expected, or in another order"},
    [CHECK_OTHER_ORDER] = {"other-order", ERROR,
                           "another seed, order, remainder, fields or label than expected"},
    [CHECK_NO_SAMPLE] = {"no-sample", ERROR, "nothing in the shards is a sample that can be read"},
    [CHECK_LEFT_OUT] = {"left-out", ERROR,
                        "a compressed shard without a copy; nothing of it is read"},
    [CHECK_NO_IDX] = {"no-idx", ERROR, "no index for DALI was written"},
    [CHECK_NO_LENGTH] = {"no-length", ERROR,
                         "a sample without a picture of known size; no lengths are written"},
};

const char *check_kind_name(unsigned kind)
{
    return kinds[kind].name ? kinds[kind].name : index_problem_name((enum index_problem)kind);
}

const char *check_kind_meaning(unsigned kind)
{
    return kinds[kind].meaning;
}

bool check_kind_is_error(unsigned kind)
{
    return kinds[kind].error;
}
