/*
 * The flash library at its three levels: each application has flash of its own on one drive, and manages as much of it as it likes.
 *
 *   levels [URI [all|write|check] [real]]
 *
 * `write` leaves data on the drive, `check` finds them again, `all` does everything and cleans up.
 * Compile: cc levels.c $(pkg-config --cflags --libs pellucid-prism) -o levels
 */
#include <pellucid/prism.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVE                                                                                                        \
    "open-channel,drive.media.channels=2,drive.media.ways=4,drive.media.planes=1,drive.media.multi_plane=false,"     \
    "drive.media.blocks=64,drive.media.pages=16"

static void must(prism_status status, const char *what)
{
    if (status != PRISM_STATUS_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, prism_status_name(status), prism_error());
        exit(1);
    }
}

static void expect(int is_so, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "wrong: %s\n", what);
        exit(1);
    }
}

static void *memory(size_t bytes)
{
    void *place = malloc(bytes);
    expect(place != NULL, "memory");
    return place;
}

/* Data that differ from place to place. */
static void fill(unsigned char *data, size_t bytes, unsigned seed)
{
    for (size_t at = 0; at < bytes; at++)
        data[at] = (unsigned char)(at * 31 + at / 4096 + seed * 17);
}

static size_t block_bytes(const prism_geometry *g)
{
    return (size_t)g->pages_each_block * g->page_size;
}

/* Flash for an application: this many LUNs. */
static void allocate(prism_drive *drive, const char *name, unsigned luns)
{
    uint64_t lun_bytes;
    must(prism_free_luns(drive, NULL, &lun_bytes), "prism_free_luns");
    must(prism_allocate(drive, name, luns * lun_bytes, 0), "prism_allocate");
}

/* ---- Raw level: the application has pages and blocks, and their rules. */

static void raw_write(prism_level *level, const prism_geometry *g, unsigned char *data)
{
    prism_address block = {0, 0, 0, 0}, second = {0, 0, 1, 0};
    fill(data, block_bytes(g), 1);
    for (block.page = 0; block.page < g->pages_each_block; block.page++)
        must(Page_Write(level, block, data + (size_t)block.page * g->page_size, 1), "Page_Write");
    /* Pages are written in order, each once between two erases. */
    must(Page_Write(level, second, data, g->pages_each_block), "Page_Write of a block");
    expect(Page_Write(level, second, data, 1) != PRISM_STATUS_OK, "a page is written twice");
    must(Block_Erase(level, second), "Block_Erase");
    must(Page_Write(level, second, data, 1), "Page_Write after an erase");
    /* The application's own bytes beside a page: of whom it is, say. */
    size_t beside = g->page_size / g->sector_size * PRISM_OOB_SIZE;
    unsigned char *oob = memory(2 * beside);
    fill(oob, beside, 9);
    second.page = 1;
    must(prism_page_write_oob(level, second, data, oob, 1), "prism_page_write_oob");
    must(prism_page_read_oob(level, second, data, oob + beside, 1), "prism_page_read_oob");
    expect(memcmp(oob, oob + beside, beside) == 0, "bytes beside a page");
    free(oob);
    prism_address outside = {g->channel_count, 0, 0, 0};
    expect(Page_Read(level, outside, data, 1) == PRISM_STATUS_OUT_OF_RANGE, "flash of somebody else is read");
}

/* All pages of the block at once, without waiting for each. */
static void raw_check(prism_drive *drive, prism_level *level, const prism_geometry *g, unsigned char *data)
{
    unsigned char *expected = memory(block_bytes(g));
    uint32_t ended = 0, pages = g->pages_each_block;
    fill(expected, block_bytes(g), 1);
    memset(data, 0, block_bytes(g));
    for (uint32_t page = 0; page < pages; page++) {
        prism_request request = {.token = page, .operation = PRISM_OPERATION_PAGE_READ, .address = {0, 0, 0, page}};
        request.data = data + (size_t)page * g->page_size;
        request.length = g->page_size;
        must(prism_submit(level, &request), "prism_submit");
    }
    prism_completion completions[16];
    while (ended < pages) {
        uint32_t count;
        must(prism_poll(drive, completions, 16, 1, &count), "prism_poll");
        for (uint32_t at = 0; at < count; at++)
            expect(completions[at].status == PRISM_STATUS_OK && completions[at].token < pages, "a page is not read");
        ended += count;
    }
    expect(memcmp(data, expected, block_bytes(g)) == 0, "raw data");
    free(expected);
}

/* ---- Function level: the library hands out, erases and levels; the application knows what is where. */

static void function_write(prism_level *level, const prism_geometry *g, unsigned char *data)
{
    prism_address kept, given_back;
    uint32_t free_blocks, less, swapped;
    float variance;
    expect(Get_SSD_Channels(level) == g->channel_count, "channels");
    must(Address_Mapper(level, 0, &kept, PRISM_MAPPING_BLOCK, &free_blocks), "Address_Mapper");
    fill(data, block_bytes(g), 2);
    must(prism_flash_write_marked(level, kept, 4711, block_bytes(g), data), "prism_flash_write_marked");
    must(Address_Mapper(level, 0, &given_back, PRISM_MAPPING_BLOCK, &less), "Address_Mapper");
    expect(less == free_blocks - 1, "free blocks");
    must(Flash_Write(level, given_back, g->page_size, data), "Flash_Write");
    must(Flash_Trim(level, given_back), "Flash_Trim");
    must(Flash_SetOPS(level, 10), "Flash_SetOPS");
    expect(Flash_SetOPS(level, 100) == PRISM_STATUS_NO_SPACE, "everything is reserved");
    prism_address shuffled[2];
    must(Wear_Leveler(level, shuffled, 1, &swapped, &variance), "Wear_Leveler");
    expect(prism_rest(NULL) == PRISM_STATUS_INVALID, "a null pointer is refused");
}

/* After a restart the application finds its data by their marks. */
static void function_check(prism_level *level, const prism_geometry *g, unsigned char *data)
{
    prism_found found[64];
    uint32_t count;
    must(prism_found_blocks(level, found, 64, &count), "prism_found_blocks");
    for (uint32_t at = 0; at < count && at < 64; at++) {
        if (!found[at].has_mark || found[at].mark != 4711)
            continue;
        must(prism_recover(level, &found[at].address, 1), "prism_recover");
        unsigned char *expected = memory(block_bytes(g));
        fill(expected, block_bytes(g), 2);
        must(Flash_Read(level, found[at].address, block_bytes(g), data), "Flash_Read");
        expect(memcmp(data, expected, block_bytes(g)) == 0, "data of the function level");
        free(expected);
        return;
    }
    expect(0, "the marked block is not found");
}

/* ---- Policy level: sectors in any order; the application says how they are mapped and collected. */

enum { RANGE = 4 << 20, PIECE = 64 << 10 };

static void policy_write(prism_drive *drive, prism_level *level, unsigned char *data)
{
    expect(FTL_Write(level, 0, data, 4096) != PRISM_STATUS_OK, "no range is set up");
    must(FTL_Ioctl(level, PRISM_MAPPING_PAGE, PRISM_GC_GREEDY, 0, RANGE), "FTL_Ioctl");
    /* Several times over, so that garbage is collected. */
    for (unsigned round = 0; round < 4; round++) {
        uint32_t outstanding = 0, count;
        prism_completion completions[8];
        for (uint64_t at = 0; at < RANGE; at += PIECE) {
            fill(data, PIECE, (unsigned)(at / PIECE) + 3);
            prism_request request = {.token = at, .operation = PRISM_OPERATION_FTL_WRITE, .offset = at};
            request.data = data;
            request.length = PIECE;
            must(prism_submit(level, &request), "prism_submit");
            outstanding++;
            must(prism_poll(drive, completions, 8, outstanding > 7, &count), "prism_poll");
            outstanding -= count;
        }
        while (outstanding > 0) {
            must(prism_poll(drive, completions, 8, 1, &count), "prism_poll");
            outstanding -= count;
        }
    }
    must(FTL_Trim(level, 0, PIECE), "FTL_Trim");
    must(FTL_Flush(level), "FTL_Flush");
    expect(FTL_Read(level, RANGE, data, 4096) == PRISM_STATUS_OUT_OF_RANGE, "what lies outside is read");
    /* A range that is not needed any more leaves its flash to another one. */
    for (unsigned mapping = PRISM_MAPPING_PAGE; mapping <= PRISM_MAPPING_BLOCK; mapping++) {
        must(FTL_Ioctl(level, mapping, PRISM_GC_FIFO, RANGE, RANGE + PIECE), "FTL_Ioctl of a second range");
        must(FTL_Write(level, RANGE, data, PIECE), "FTL_Write to a second range");
        must(prism_ftl_remove(level, RANGE, RANGE + PIECE), "prism_ftl_remove");
    }
    expect(prism_ftl_remove(level, RANGE, RANGE + PIECE) == PRISM_STATUS_MISSING, "it is gone already");
}

static void policy_check(prism_level *level, unsigned char *data, int is_new)
{
    unsigned char *expected = memory(PIECE);
    if (is_new)
        must(FTL_Ioctl(level, PRISM_MAPPING_PAGE, PRISM_GC_GREEDY, 0, RANGE), "FTL_Ioctl again");
    for (uint64_t at = 0; at < RANGE; at += PIECE) {
        fill(expected, PIECE, (unsigned)(at / PIECE) + 3);
        if (at == 0)
            memset(expected, 0, PIECE);
        must(FTL_Read(level, at, data, PIECE), "FTL_Read");
        expect(memcmp(data, expected, PIECE) == 0, "data of the policy level");
    }
    free(expected);
}

int main(int argc, char **argv)
{
    const char *uri = argc > 1 ? argv[1] : DRIVE;
    const char *what = argc > 2 ? argv[2] : "all";
    expect(!strcmp(what, "all") || !strcmp(what, "write") || !strcmp(what, "check"), "the second word: allowed: all, write, check");
    int writes = strcmp(what, "check") != 0, checks = strcmp(what, "write") != 0;
    uint32_t flags = (argc > 3 ? PRISM_REAL_TIME : 0) | (writes ? PRISM_FORMAT : 0);
    prism_drive *drive;
    prism_level *raw, *function, *policy;
    prism_geometry g;
    expect(prism_api_version() == PRISM_API_VERSION, "the library is another one than the header");
    must(prism_open(uri, flags, &drive), "prism_open");
    if (writes) {
        allocate(drive, "raw", 1);
        allocate(drive, "function", 1);
        allocate(drive, "policy", 2);
    }
    must(prism_open_raw(drive, "raw", &raw), "prism_open_raw");
    must(prism_open_function(drive, "function", &function), "prism_open_function");
    must(prism_open_policy(drive, "policy", &policy), "prism_open_policy");
    must(Get_SSD_Geometry(raw, &g), "Get_SSD_Geometry");
    size_t room = block_bytes(&g) > PIECE ? block_bytes(&g) : PIECE;
    unsigned char *data = memory(room);
    if (writes) {
        raw_write(raw, &g, data);
        function_write(function, &g, data);
        policy_write(drive, policy, data);
    }
    if (checks) {
        raw_check(drive, raw, &g, data);
        if (writes) {
            must(prism_rest(drive), "prism_rest");
            must(prism_close_level(function), "prism_close_level");
            must(prism_open_function(drive, "function", &function), "prism_open_function again");
        }
        function_check(function, &g, data);
        policy_check(policy, data, !writes);
    }
    prism_statistics statistics;
    must(prism_statistics_of(drive, "policy", &statistics), "prism_statistics_of");
    printf("%s: %u channels of %u LUNs of %u blocks of %u pages of %u bytes; policy wrote %llu sectors, erased %llu blocks\n",
           what, g.channel_count, g.luns_each_channel, g.blocks_each_lun, g.pages_each_block, g.page_size,
           (unsigned long long)statistics.written_sectors, (unsigned long long)statistics.erases);
    must(prism_close_level(raw), "prism_close_level");
    must(prism_close_level(function), "prism_close_level");
    must(prism_close_level(policy), "prism_close_level");
    if (strcmp(what, "all") == 0)
        must(prism_release(drive, "raw"), "prism_release");
    prism_close(drive);
    free(data);
    return 0;
}
