/*
 * The flash library: raw flash, flash functions, and a translation with the policy of one's choice.
 *
 * Made from the sources by `PELLUCID_WRITE_REFERENCE=1 cargo test -p pellucid-prism-c --test header`: changes go
 * there. The reference is docs/reference/prism-c.md.
 *
 * Threads: any function may be called by any thread at any time, with any handle that is open. Calls on one drive and
 * its levels take turns, so a call waits for the one before. A handle is closed once, when no other call has it.
 * `prism_error` is of the calling thread.
 */
#ifndef PELLUCID_PRISM_H
#define PELLUCID_PRISM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Types */

/*
 * Version of this interface. It rises when a program that was compiled with an older header would not work
 * any more; what is added leaves it as it is.
 */
#define PRISM_API_VERSION 1

/*
 * A flag of `prism_open`: the time of a modelled drive is that of the clock. Without it time is virtual: a
 * call takes what the drive takes in simulated time, and no longer in reality than it takes to compute that.
 * Remote drives and files are in real time always.
 */
#define PRISM_REAL_TIME 1

/*
 * A flag of `prism_open`: makes the state of a new flash monitor, whatever the drive holds. All applications
 * on it are gone.
 */
#define PRISM_FORMAT 2

/* Bytes that an application can keep beside each sector at the raw level. */
#define PRISM_OOB_SIZE 16

/* How a call ended. `prism_error` has a sentence about the last one of this thread that did not end well. */
typedef enum prism_status {
    /* Done. */
    PRISM_STATUS_OK = 0,
    /*
     * An argument makes no sense: a null pointer, a length that is no multiple of what it must be, a call of
     * another level.
     */
    PRISM_STATUS_INVALID = 1,
    /* The address is not in the flash of this application. Nothing was sent to the drive. */
    PRISM_STATUS_OUT_OF_RANGE = 2,
    /*
     * The rules of flash forbid it: pages out of order, a block that is not erased or not mapped, data that
     * were not written.
     */
    PRISM_STATUS_ORDER = 3,
    /* No block or LUN is free, or a quota is used up, or more blocks have to be given back first. */
    PRISM_STATUS_NO_SPACE = 4,
    /* There is such an application, or level, or range already. */
    PRISM_STATUS_EXISTS = 5,
    /* There is no such application, or nothing is under way. */
    PRISM_STATUS_MISSING = 6,
    /* The flash could not return the data. */
    PRISM_STATUS_READ_ERROR = 7,
    /* The flash could not write or erase. */
    PRISM_STATUS_WRITE_ERROR = 8,
    /* The drive takes no writes any more. */
    PRISM_STATUS_READ_ONLY = 9,
    /* The drive cannot be opened, or does not answer. */
    PRISM_STATUS_UNREACHABLE = 10,
    /* Something of it is still under way. */
    PRISM_STATUS_BUSY = 11,
    /* A mistake of this library. The drive is of no use any more. */
    PRISM_STATUS_INTERNAL = 12,
} prism_status;

/* A page of an application's flash. */
typedef struct prism_address {
    /* From 0. */
    uint32_t channel;
    /* From 0 in its channel. */
    uint32_t lun;
    /* From 0 in its LUN. */
    uint32_t block;
    /* From 0 in its block. */
    uint32_t page;
} prism_address;

/* The layout of an application's flash, as every level shows it (`SSD_geometry` of the paper). */
typedef struct prism_geometry {
    /* Channels. */
    uint32_t channel_count;
    /* LUNs of each channel. */
    uint32_t luns_each_channel;
    /* Blocks of each LUN. */
    uint32_t blocks_each_lun;
    /* Pages of each block. A page is the least that can be written. */
    uint32_t pages_each_block;
    /* Bytes of a page. */
    uint32_t page_size;
    /*
     * Bytes of a sector, the least that can be read at the function and policy levels. A page is a number of
     * them.
     */
    uint32_t sector_size;
} prism_geometry;

/* How space is mapped. */
typedef enum prism_mapping {
    /* By pages. */
    PRISM_MAPPING_PAGE = 0,
    /* By blocks. */
    PRISM_MAPPING_BLOCK = 1,
} prism_mapping;

/* How the policy level chooses what it empties next. */
typedef enum prism_gc {
    /* What costs the fewest copies. */
    PRISM_GC_GREEDY = 0,
    /* What was begun first. */
    PRISM_GC_FIFO = 1,
    /* What was changed last the longest ago. */
    PRISM_GC_LRU = 2,
    /* What is worth most by age and cost. */
    PRISM_GC_COST_BENEFIT = 3,
} prism_gc;

/* What a block was found to hold when the function level was opened. */
typedef struct prism_found {
    /* The block. */
    prism_address address;
    /* The application's word of its first page (`prism_flash_write_marked`). */
    uint32_t mark;
    /* Whether there is one: 0 where something else wrote the block, or it cannot be read. */
    uint32_t has_mark;
    /* Pages written. */
    uint32_t pages;
    /* Erases of the block. */
    uint32_t erases;
} prism_found;

/* What an application did since the drive was opened, and the state of its flash. */
typedef struct prism_statistics {
    /* Reads. */
    uint64_t reads;
    /* Their sectors. */
    uint64_t read_sectors;
    /* Writes. */
    uint64_t writes;
    /* Their sectors. */
    uint64_t written_sectors;
    /* Blocks erased. */
    uint64_t erases;
    /* Addresses refused, because they are not the application's. */
    uint64_t refused;
    /* Blocks that failed and were replaced. */
    uint64_t replaced_blocks;
    /* Blocks that failed when no spare was left. */
    uint64_t lost_blocks;
    /* LUNs that changed places with a less worn one. */
    uint64_t swapped_luns;
    /* Erases of a block on average, since the monitor was made. */
    double average_erases;
} prism_statistics;

/* What `prism_submit` is asked to do. */
typedef enum prism_operation {
    /* As `Page_Read`: `address`, `data`, `length` bytes of whole pages. */
    PRISM_OPERATION_PAGE_READ = 0,
    /* As `Page_Write`: the same. */
    PRISM_OPERATION_PAGE_WRITE = 1,
    /* As `Block_Erase`: `address`. */
    PRISM_OPERATION_BLOCK_ERASE = 2,
    /* As `Flash_Read`: `address`, `data`, `length`, `offset`. */
    PRISM_OPERATION_FLASH_READ = 3,
    /* As `Flash_Write`: `address`, `data`, `length`, `mark`. */
    PRISM_OPERATION_FLASH_WRITE = 4,
    /* As `FTL_Read`: `offset`, `data`, `length`. */
    PRISM_OPERATION_FTL_READ = 5,
    /* As `FTL_Write`: the same. */
    PRISM_OPERATION_FTL_WRITE = 6,
    /* As `FTL_Trim`: `offset`, `length`. */
    PRISM_OPERATION_FTL_TRIM = 7,
    /* As `FTL_Flush`. */
    PRISM_OPERATION_FTL_FLUSH = 8,
} prism_operation;

/* An operation that is not waited for. */
typedef struct prism_request {
    /* The caller's own name for it; `prism_poll` gives it back. */
    uint64_t token;
    /* A `prism_operation`. */
    uint32_t operation;
    /* `FLASH_WRITE`: the application's own word, which stands beside the data. */
    uint32_t mark;
    /* Where, at the raw and function levels. */
    prism_address address;
    /*
     * `FLASH_READ`: bytes behind the beginning of the page, whole sectors. At the policy level: the first
     * byte.
     */
    uint64_t offset;
    /*
     * Where the data come from, or go to. What is written is copied before `prism_submit` returns. What is
     * read is put here by the `prism_poll` that tells of it, so the memory must be there until then.
     */
    void *data;
    /* Bytes of them. */
    uint64_t length;
} prism_request;

/* How an operation that was submitted ended. */
typedef struct prism_completion {
    /* The caller's own name for it. */
    uint64_t token;
    /* When, in nanoseconds of the drive's time. */
    uint64_t at_ns;
    /* How. */
    prism_status status;
} prism_completion;

/*
 * A drive that is open, with its flash monitor. Any number of threads may use one at once: their calls take
 * turns.
 */
typedef struct prism_drive prism_drive;

/*
 * A level that is open on an application's flash. It keeps its drive open. Any number of threads may use one
 * at once.
 */
typedef struct prism_level prism_level;

/* ---- Drives */

/*
 * The version of this interface that the library has; a program compares it with `PRISM_API_VERSION`, with
 * which it was compiled.
 */
uint32_t prism_api_version(void);

/*
 * A sentence about the last call of this thread that did not end with `PRISM_STATUS_OK`. It stays until the
 * next such call of the thread.
 */
const char *prism_error(void);

/* The name of a status, in a word. */
const char *prism_status_name(uint32_t status);

/*
 * Opens a drive and the flash monitor on it, which is made where the media are blank. `uri` is one of:
 * - a preset or the path of a description, perhaps with settings:
 *   `open-channel,drive.media.geometry.blocks=64`. The drive is modelled in this process, and its data are in
 *   memory unless the settings say `drive.media.store=file:PATH`.
 * - `nvme+tcp://HOST:PORT` and perhaps `/NQN`: an open-channel or zoned drive that another process or machine
 *   serves.
 * - `file:PATH` and perhaps `,size=10GiB`: a plain file, which is made where there is none and a size is
 *   given, or a block device.
 *
 * `flags`: 0, or `PRISM_REAL_TIME` and `PRISM_FORMAT`, added.
 *
 * Needs: `uri` is a string; a pointer can be stored at `drive`.
 */
prism_status prism_open(const char *uri, uint32_t flags, prism_drive **drive);

/*
 * Closes a drive; null is nothing. It goes on for as long as a level on it is open. What was submitted and
 * not polled is lost.
 *
 * Needs: The handle was opened, is not closed, and nobody else uses it.
 */
void prism_close(prism_drive *drive);

/*
 * The layout of the whole drive, with what applications do not see.
 *
 * Needs: A handle that is open; a geometry can be stored at `geometry`.
 */
prism_status prism_drive_geometry(const prism_drive *drive, prism_geometry *geometry);

/*
 * How many LUNs no application has, and what an application can keep in one. Each of the last two pointers
 * may be null.
 *
 * Needs: A handle that is open; the results can be stored.
 */
prism_status prism_free_luns(const prism_drive *drive, uint32_t *luns, uint64_t *lun_bytes);

/*
 * The drive's time in nanoseconds: simulated, or since it was opened. 0 where there is no such drive.
 *
 * Needs: A handle that is open.
 */
uint64_t prism_now_ns(const prism_drive *drive);

/* ---- Applications */

/*
 * Gives flash to a new application, in whole LUNs, round robin over channels: as many as `capacity` bytes
 * need, and `over_provisioning_percent` more. It has it until it is released, over restarts too.
 *
 * Needs: A handle that is open, and a string.
 */
prism_status prism_allocate(const prism_drive *drive, const char *name, uint64_t capacity, uint32_t over_provisioning_percent);

/*
 * Takes the flash of an application away; its data are lost. No level of it is open.
 *
 * Needs: A handle that is open, and a string.
 */
prism_status prism_release(const prism_drive *drive, const char *name);

/*
 * What an application did since the drive was opened.
 *
 * Needs: A handle that is open, and a string; the statistics can be stored.
 */
prism_status prism_statistics_of(const prism_drive *drive, const char *name, prism_statistics *statistics);

/* ---- Levels */

/*
 * Opens the raw level on the flash of an application.
 *
 * Needs: A handle that is open, and a string; a pointer can be stored at `level`.
 */
prism_status prism_open_raw(const prism_drive *drive, const char *name, prism_level **level);

/*
 * Opens the function level on the flash of an application. What it finds there is listed by
 * `prism_found_blocks`; calls but that one and `prism_recover` are refused until `prism_recover` has said
 * what of it is still needed, unless nothing was found.
 *
 * Needs: A handle that is open, and a string; a pointer can be stored at `level`.
 */
prism_status prism_open_function(const prism_drive *drive, const char *name, prism_level **level);

/*
 * Opens the policy level on the flash of an application. Nothing can be read or written before `FTL_Ioctl`
 * has set a range up.
 *
 * Needs: A handle that is open, and a string; a pointer can be stored at `level`.
 */
prism_status prism_open_policy(const prism_drive *drive, const char *name, prism_level **level);

/*
 * Closes a level, after what is under way on it. Null is nothing. Where it ends with `PRISM_STATUS_BUSY` the
 * level is open still.
 *
 * Needs: The handle was opened, is not closed, and nobody else uses it.
 */
prism_status prism_close_level(prism_level *level);

/*
 * Shows the layout of the application's flash, at every level.
 *
 * Needs: A handle that is open; a geometry can be stored.
 */
prism_status Get_SSD_Geometry(const prism_level *level, prism_geometry *geometry);

/* ---- Raw level */

/*
 * Reads `pages` pages of one block.
 *
 * Needs: A handle that is open; so many pages can be stored at `data`.
 */
prism_status Page_Read(const prism_level *level, prism_address address, void *data, uint32_t pages);

/*
 * Writes `pages` pages of one block, the next that it has: the pages of a block are written in order, each
 * once between two erases.
 *
 * Needs: A handle that is open; so many pages are at `data`.
 */
prism_status Page_Write(const prism_level *level, prism_address address, const void *data, uint32_t pages);

/*
 * Erases the block of `address`.
 *
 * Needs: A handle that is open.
 */
prism_status Block_Erase(const prism_level *level, prism_address address);

/*
 * As `Page_Write`, with the application's own bytes beside the data: `PRISM_OOB_SIZE` for each sector.
 *
 * Needs: A handle that is open; so many pages are at `data`, and the bytes beside them at `oob`.
 */
prism_status prism_page_write_oob(const prism_level *level, prism_address address, const void *data, const void *oob, uint32_t pages);

/*
 * As `Page_Read`, with what stands beside the data: `PRISM_OOB_SIZE` bytes for each sector.
 *
 * Needs: A handle that is open; so many pages can be stored at `data`, and the bytes beside them at `oob`.
 */
prism_status prism_page_read_oob(const prism_level *level, prism_address address, void *data, void *oob, uint32_t pages);

/* ---- Function level */

/*
 * The channels of the application's flash; 0 where there is no such level.
 *
 * Needs: A handle that is open.
 */
uint32_t Get_SSD_Channels(const prism_level *level);

/*
 * Hands out a block of a channel, or with `PRISM_MAPPING_PAGE` a page of one, and says how many blocks of the
 * channel can be had still. `mapping` is a `prism_mapping`; `free_blocks` may be null.
 *
 * Needs: A handle that is open; the results can be stored.
 */
prism_status Address_Mapper(const prism_level *level, uint32_t channel, prism_address *address, uint32_t mapping, uint32_t *free_blocks);

/*
 * Gives the block of `address` back: nothing in it is needed any more. It is erased in the background, when
 * nothing reads from it.
 *
 * Needs: A handle that is open.
 */
prism_status Flash_Trim(const prism_level *level, prism_address address);

/*
 * Exchanges the data of the most worn and the least worn of the blocks that are full, if that is of use, and
 * says how far apart erase counts are. `shuffled` has room for `pairs` pairs of addresses, which the
 * application exchanges in its map; `found` says how many there are: one, none, or seldom more where flash
 * has failed. `variance` is that of the erase counts of mapped blocks. Pointers to results may be null.
 *
 * Needs: A handle that is open; the results can be stored, and at `shuffled` twice as many addresses as
 * `pairs`.
 */
prism_status Wear_Leveler(const prism_level *level, prism_address *shuffled, uint32_t pairs, uint32_t *found, float *variance);

/*
 * Reserves so many percent of the application's blocks, which are not handed out. Refused while too many
 * blocks are handed out already; the sentence says how many have to be given back.
 *
 * Needs: A handle that is open.
 */
prism_status Flash_SetOPS(const prism_level *level, uint32_t percent);

/*
 * Reads `length` bytes, whole sectors, of one block from the page of `address` on.
 *
 * Needs: A handle that is open; so many bytes can be stored at `data`.
 */
prism_status Flash_Read(const prism_level *level, prism_address address, uint64_t length, void *data);

/*
 * Writes `length` bytes, whole pages, of one block from the page of `address` on, which is the next that the
 * block has.
 *
 * Needs: A handle that is open; so many bytes are at `data`.
 */
prism_status Flash_Write(const prism_level *level, prism_address address, uint64_t length, const void *data);

/*
 * As `Flash_Write`; the application's own word stands beside the data, and is listed by `prism_found_blocks`
 * after a restart.
 *
 * Needs: A handle that is open; so many bytes are at `data`.
 */
prism_status prism_flash_write_marked(const prism_level *level, prism_address address, uint32_t mark, uint64_t length, const void *data);

/*
 * Lists the blocks that were found to hold data when the function level was opened: at most `room` of them
 * are stored, and `count` says how many there are.
 *
 * Needs: A handle that is open; so many blocks can be stored at `blocks`, and their number at `count`.
 */
prism_status prism_found_blocks(const prism_level *level, prism_found *blocks, uint32_t room, uint32_t *count);

/*
 * Says which of the blocks that were found are still needed. They are mapped from now on; all others are
 * erased in the background.
 *
 * Needs: A handle that is open; so many addresses are at `blocks`.
 */
prism_status prism_recover(const prism_level *level, const prism_address *blocks, uint32_t count);

/* ---- Policy level */

/*
 * Sets up the bytes from `begin` to before `end`: how they are mapped (a `prism_mapping`), which block
 * garbage collection empties next (a `prism_gc`), and how many percent of flash they have beside their size.
 * It waits until the range has found its data: a range that was set up before has to be the same in
 * everything but `gc`. A level has 8 ranges at most, which do not overlap.
 *
 * Needs: A handle that is open.
 */
prism_status prism_ftl_ioctl(const prism_level *level, uint32_t mapping, uint32_t gc, uint64_t begin, uint64_t end, uint32_t over_provisioning_percent);

/*
 * As `prism_ftl_ioctl`, with 25 % of over-provisioning.
 *
 * Needs: A handle that is open.
 */
prism_status FTL_Ioctl(const prism_level *level, uint32_t mapping, uint32_t gc, uint64_t begin, uint64_t end);

/*
 * Removes the range from `begin` to before `end`, which was set up before, perhaps in another run: its data
 * are lost, and its flash can be given to another one. It waits until that is so. Refused while operations of
 * the range are under way.
 *
 * Needs: A handle that is open.
 */
prism_status prism_ftl_remove(const prism_level *level, uint64_t begin, uint64_t end);

/*
 * Reads `length` bytes, whole sectors, from byte `at` on. What was never written is zeros.
 *
 * Needs: A handle that is open; so many bytes can be stored at `data`.
 */
prism_status FTL_Read(const prism_level *level, uint64_t at, void *data, uint64_t length);

/*
 * Writes `length` bytes, whole sectors, from byte `at` on. They survive a crash once `FTL_Flush` has ended.
 *
 * Needs: A handle that is open; so many bytes are at `data`.
 */
prism_status FTL_Write(const prism_level *level, uint64_t at, const void *data, uint64_t length);

/*
 * Says that nothing in `length` bytes, whole sectors, from byte `at` on is needed any more. They read as
 * zeros.
 *
 * Needs: A handle that is open.
 */
prism_status FTL_Trim(const prism_level *level, uint64_t at, uint64_t length);

/*
 * Brings everything that was written before to the flash.
 *
 * Needs: A handle that is open.
 */
prism_status FTL_Flush(const prism_level *level);

/* ---- Without waiting */

/*
 * Begins an operation and does not wait for its end, which `prism_poll` tells. An operation that is refused
 * here is not told there.
 *
 * Needs: A handle that is open; a request, and its data as it says.
 */
prism_status prism_submit(const prism_level *level, const prism_request *request);

/*
 * Tells which operations have ended, of all levels of the drive: at most `room` are stored, and `count` says
 * how many. It waits until there are `least`, or all that are under way have ended. With `least` 0 it does
 * not wait: in virtual time nothing goes on then.
 *
 * Needs: A handle that is open; so many completions can be stored, and their number at `count`.
 */
prism_status prism_poll(const prism_drive *drive, prism_completion *completions, uint32_t room, uint32_t least, uint32_t *count);

/*
 * Waits until nothing is under way on the drive: neither operations nor erases in the background.
 *
 * Needs: A handle that is open.
 */
prism_status prism_rest(const prism_drive *drive);

#ifdef __cplusplus
}
#endif

#endif
