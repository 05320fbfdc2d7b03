/*
 * A ZIP of stored entries, written from front to back. Each has the time 1980-01-01, which is the
 * format's zero, and of its mode only whether it is a program. 64-bit sizes are not needed: what
 * may be installed is far below 4 GiB.
 */
#include "store/internal.h"

#include <errno.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define LOCAL_SIGNATURE     0x04034b50u
#define DIRECTORY_SIGNATURE 0x02014b50u
#define END_SIGNATURE       0x06054b50u
#define VERSION             20     /* of the format */
#define MADE_BY_UNIX        0x0300 /* so that its modes count */
#define UTF8_NAMES          0x0800
#define DATE_ZERO           0x0021 /* 1980-01-01 */
#define ENTRIES_MAX         65535
#define BYTES_MAX           (UINT32_MAX - (1u << 20))

struct pack_zip {
    int fd;
    uint64_t at;
    uint32_t entries;
    struct kg_buf directory;
    struct sha256_ctx digest;
};

static void pack_zip_put16(struct kg_buf *out, uint32_t value)
{
    const char bytes[] = {(char)value, (char)(value >> 8)};
    kg_buf_append(out, bytes, sizeof(bytes));
}

static void put32(struct kg_buf *out, uint32_t value)
{
    pack_zip_put16(out, value & 0xffff);
    pack_zip_put16(out, value >> 16);
}

static uint32_t crc32_of(struct kg_str bytes)
{
    static uint32_t table[256];
    uint32_t crc = ~0u;
    if (table[1] == 0)
        for (uint32_t i = 0; i < KG_COUNT(table); i++) {
            table[i] = i;
            for (int bit = 0; bit < 8; bit++)
                table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0);
        }
    for (size_t i = 0; i < bytes.length; i++)
        crc = crc >> 8 ^ table[(crc ^ (unsigned char)bytes.data[i]) & 0xff];
    return ~crc;
}

/* What both headers of an entry have. */
static void pack_zip_put_entry(struct kg_buf *out, const char *path, uint32_t crc, uint32_t bytes)
{
    pack_zip_put16(out, VERSION);
    pack_zip_put16(out, UTF8_NAMES);
    pack_zip_put16(out, 0); /* stored */
    pack_zip_put16(out, 0); /* midnight */
    pack_zip_put16(out, DATE_ZERO);
    put32(out, crc);
    put32(out, bytes);
    put32(out, bytes);
    pack_zip_put16(out, (uint32_t)strlen(path));
    pack_zip_put16(out, 0);
}

static int pack_zip_write_out(struct pack_zip *zip, struct kg_str bytes, struct kg_err *err)
{
    int result = kg_write_all(zip->fd, bytes.data, bytes.length);
    if (result < 0)
        return kg_fail_errno(err, -result, "write it");
    sha256_update(&zip->digest, bytes.length, (const uint8_t *)bytes.data);
    zip->at += bytes.length;
    return 0;
}

struct pack_zip *pack_zip_new(int fd)
{
    struct pack_zip *zip = kg_alloc(sizeof(*zip));
    zip->fd = fd;
    sha256_init(&zip->digest);
    return zip;
}

int pack_zip_add(struct pack_zip *zip, const char *path, bool is_program, struct kg_str bytes,
                 struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf header = {0};
    uint32_t crc = crc32_of(bytes), mode = S_IFREG | (is_program ? 0755 : 0644);
    if (zip->entries == ENTRIES_MAX || zip->at + bytes.length > BYTES_MAX)
        return kg_fail(err, KG_E_TOO_LARGE, "it has too many files, or they are too large");
    put32(&zip->directory, DIRECTORY_SIGNATURE);
    pack_zip_put16(&zip->directory, MADE_BY_UNIX | VERSION);
    pack_zip_put_entry(&zip->directory, path, crc, (uint32_t)bytes.length);
    pack_zip_put16(&zip->directory, 0); /* no comment */
    pack_zip_put16(&zip->directory, 0);
    pack_zip_put16(&zip->directory, 0);
    put32(&zip->directory, mode << 16);
    put32(&zip->directory, (uint32_t)zip->at);
    kg_buf_text(&zip->directory, path);
    zip->entries++;
    put32(&header, LOCAL_SIGNATURE);
    pack_zip_put_entry(&header, path, crc, (uint32_t)bytes.length);
    kg_buf_text(&header, path);
    int result = pack_zip_write_out(zip, kg_buf_view(&header), err);
    return result < 0 ? result : pack_zip_write_out(zip, bytes, err);
}

int pack_zip_end(struct pack_zip *zip, uint64_t *ret_bytes, char ret_hash[65], struct kg_err *err)
{
    uint8_t sha256[SHA256_DIGEST_SIZE];
    uint32_t begins = (uint32_t)zip->at, length = (uint32_t)zip->directory.length;
    put32(&zip->directory, END_SIGNATURE);
    put32(&zip->directory, 0); /* one volume */
    pack_zip_put16(&zip->directory, zip->entries);
    pack_zip_put16(&zip->directory, zip->entries);
    put32(&zip->directory, length);
    put32(&zip->directory, begins);
    pack_zip_put16(&zip->directory, 0);
    int result = pack_zip_write_out(zip, kg_buf_view(&zip->directory), err);
    if (result < 0)
        return result;
    sha256_digest(&zip->digest, sizeof(sha256), sha256);
    for (size_t i = 0; i < sizeof(sha256); i++)
        snprintf(ret_hash + 2 * i, 3, "%02x", sha256[i]);
    *ret_bytes = zip->at;
    return 0;
}

void pack_zip_free(struct pack_zip *zip)
{
    if (zip == NULL)
        return;
    kg_buf_free(&zip->directory);
    free(zip);
}
