/* Operations that would change the view: each answers EROFS, for root too. Handlers of libfuse;
 * they keep no state. What needs a closer look (write, setattr, removexattr) is in fs/serve.c. */
#ifndef SHUFFLEFS_REFUSE_H
#define SHUFFLEFS_REFUSE_H

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

void refuse_mknod(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode,
                  dev_t device);
void refuse_mkdir(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode);
void refuse_remove(fuse_req_t request, fuse_ino_t parent, const char *name);
void refuse_symlink(fuse_req_t request, const char *link, fuse_ino_t parent, const char *name);
void refuse_rename(fuse_req_t request, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
                   const char *new_name, unsigned flags);
void refuse_link(fuse_req_t request, fuse_ino_t inode, fuse_ino_t parent, const char *name);
void refuse_create(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode,
                   struct fuse_file_info *file);
void refuse_setxattr(fuse_req_t request, fuse_ino_t inode, const char *name, const char *value,
                     size_t size, int flags);
void refuse_fallocate(fuse_req_t request, fuse_ino_t inode, int mode, off_t offset, off_t length,
                      struct fuse_file_info *file);
void refuse_copy_file_range(fuse_req_t request, fuse_ino_t from, off_t from_offset,
                            struct fuse_file_info *from_file, fuse_ino_t to, off_t to_offset,
                            struct fuse_file_info *to_file, size_t size, int flags);

#endif
