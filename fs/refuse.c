/* Operations that would change the view. */
#include "refuse.h"

#include <errno.h>

void refuse_mknod(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode,
                  dev_t device)
{
    (void)parent, (void)name, (void)mode, (void)device;
    fuse_reply_err(request, EROFS);
}

void refuse_mkdir(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode)
{
    (void)parent, (void)name, (void)mode;
    fuse_reply_err(request, EROFS);
}

void refuse_remove(fuse_req_t request, fuse_ino_t parent, const char *name)
{
    (void)parent, (void)name;
    fuse_reply_err(request, EROFS);
}

void refuse_symlink(fuse_req_t request, const char *link, fuse_ino_t parent, const char *name)
{
    (void)link, (void)parent, (void)name;
    fuse_reply_err(request, EROFS);
}

void refuse_rename(fuse_req_t request, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
                   const char *new_name, unsigned flags)
{
    (void)parent, (void)name, (void)new_parent, (void)new_name, (void)flags;
    fuse_reply_err(request, EROFS);
}

void refuse_link(fuse_req_t request, fuse_ino_t inode, fuse_ino_t parent, const char *name)
{
    (void)inode, (void)parent, (void)name;
    fuse_reply_err(request, EROFS);
}

void refuse_create(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode,
                   struct fuse_file_info *file)
{
    (void)parent, (void)name, (void)mode, (void)file;
    fuse_reply_err(request, EROFS);
}

void refuse_setxattr(fuse_req_t request, fuse_ino_t inode, const char *name, const char *value,
                     size_t size, int flags)
{
    (void)inode, (void)name, (void)value, (void)size, (void)flags;
    fuse_reply_err(request, EROFS);
}

void refuse_fallocate(fuse_req_t request, fuse_ino_t inode, int mode, off_t offset, off_t length,
                      struct fuse_file_info *file)
{
    (void)inode, (void)mode, (void)offset, (void)length, (void)file;
    fuse_reply_err(request, EROFS);
}

void refuse_copy_file_range(fuse_req_t request, fuse_ino_t from, off_t from_offset,
                            struct fuse_file_info *from_file, fuse_ino_t to, off_t to_offset,
                            struct fuse_file_info *to_file, size_t size, int flags)
{
    (void)from, (void)from_offset, (void)from_file, (void)to, (void)to_offset, (void)to_file;
    (void)size, (void)flags;
    fuse_reply_err(request, EROFS);
}
