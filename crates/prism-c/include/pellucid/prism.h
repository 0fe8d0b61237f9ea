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
 * Version of this interface. It rises with changes that break programs compiled with an older header;
 * additions leave it as it is.
 */
#define PRISM_API_VERSION 1

/*
 * Flag of `prism_open`: a modelled drive runs in real time. Without it time is virtual: a call takes the
 * drive's simulated time, and in reality only the time to compute it. Remote drives and files always run in
 * real time.
 */
#define PRISM_REAL_TIME 1

/* Flag of `prism_open`: creates a new flash monitor, and discards all applications on the drive. */
#define PRISM_FORMAT 2

/* Bytes beside each sector that an application can store at the raw level. */
#define PRISM_OOB_SIZE 16

/* Status of a call. `prism_error` returns a sentence about this thread's last failed call. */
typedef enum prism_status {
    /* The call succeeded. */
    PRISM_STATUS_OK = 0,
    /* An argument is invalid: a null pointer, a wrong length, or a call of another level. */
    PRISM_STATUS_INVALID = 1,
    /* The address is outside the application's flash. Nothing was sent to the drive. */
    PRISM_STATUS_OUT_OF_RANGE = 2,
    /*
     * The rules of flash forbid the call: pages out of order, a block that is not erased or not mapped, or
     * data that were not written.
     */
    PRISM_STATUS_ORDER = 3,
    /* No block or LUN is free, a quota is exhausted, or more blocks have to be given back first. */
    PRISM_STATUS_NO_SPACE = 4,
    /* The application, level or range already exists. */
    PRISM_STATUS_EXISTS = 5,
    /* The application does not exist, or nothing is under way. */
    PRISM_STATUS_MISSING = 6,
    /* The flash could not return the data. */
    PRISM_STATUS_READ_ERROR = 7,
    /* The flash could not write or erase. */
    PRISM_STATUS_WRITE_ERROR = 8,
    /* The drive is read-only: it has stopped taking writes. */
    PRISM_STATUS_READ_ONLY = 9,
    /* The drive cannot be opened, or does not answer. */
    PRISM_STATUS_UNREACHABLE = 10,
    /* Operations of the level, range or application are still under way. */
    PRISM_STATUS_BUSY = 11,
    /* Internal error of this library. The drive is no longer usable. */
    PRISM_STATUS_INTERNAL = 12,
} prism_status;

/* Address of a page in an application's flash. */
typedef struct prism_address {
    /* Channel, from 0. */
    uint32_t channel;
    /* LUN of the channel, from 0. */
    uint32_t lun;
    /* Block of the LUN, from 0. */
    uint32_t block;
    /* Page of the block, from 0. */
    uint32_t page;
} prism_address;

/* Layout of an application's flash, as every level returns it (`SSD_geometry` of the paper). */
typedef struct prism_geometry {
    /* Number of channels. */
    uint32_t channel_count;
    /* LUNs in each channel. */
    uint32_t luns_each_channel;
    /* Blocks in each LUN. */
    uint32_t blocks_each_lun;
    /* Pages in each block. A page is the smallest unit of writing. */
    uint32_t pages_each_block;
    /* Bytes in a page. */
    uint32_t page_size;
    /*
     * Bytes in a sector, the smallest unit of reading at the function and policy levels. A page holds a whole
     * number of sectors.
     */
    uint32_t sector_size;
} prism_geometry;

/* Granularity of a mapping. */
typedef enum prism_mapping {
    /* Mapping by pages. */
    PRISM_MAPPING_PAGE = 0,
    /* Mapping by blocks. */
    PRISM_MAPPING_BLOCK = 1,
} prism_mapping;

/* Garbage collection policy of the policy level: its choice of the next block to empty. */
typedef enum prism_gc {
    /* Block with the fewest valid pages to copy. */
    PRISM_GC_GREEDY = 0,
    /* Block that was opened first. */
    PRISM_GC_FIFO = 1,
    /* Block whose last change is the longest ago. */
    PRISM_GC_LRU = 2,
    /* Block with the best ratio of age to cost. */
    PRISM_GC_COST_BENEFIT = 3,
} prism_gc;

/* Content of a block that held data when the function level was opened. */
typedef struct prism_found {
    /* Address of the block. */
    prism_address address;
    /* The application's word in the block's first page (`prism_flash_write_marked`). */
    uint32_t mark;
    /*
     * Validity of `mark`: 1 if it is valid; 0 if something else wrote the block, or its first page is
     * unreadable.
     */
    uint32_t has_mark;
    /* Number of pages written. */
    uint32_t pages;
    /* Number of erases of the block. */
    uint32_t erases;
} prism_found;

/* Statistics of an application since the drive was opened, and the state of its flash. */
typedef struct prism_statistics {
    /* Number of reads. */
    uint64_t reads;
    /* Number of sectors read. */
    uint64_t read_sectors;
    /* Number of writes. */
    uint64_t writes;
    /* Number of sectors written. */
    uint64_t written_sectors;
    /* Number of blocks erased. */
    uint64_t erases;
    /* Number of addresses refused because they are outside the application's flash. */
    uint64_t refused;
    /* Number of blocks that failed and were replaced. */
    uint64_t replaced_blocks;
    /* Number of blocks that failed when no spare was left. */
    uint64_t lost_blocks;
    /* Number of LUNs that were swapped with a less worn one. */
    uint64_t swapped_luns;
    /* Average number of erases of a block since the monitor was created. */
    double average_erases;
} prism_statistics;

/* Operation of a request to `prism_submit`. */
typedef enum prism_operation {
    /* Operation of `Page_Read`; uses `address`, `data`, and `length` in bytes of whole pages. */
    PRISM_OPERATION_PAGE_READ = 0,
    /* Operation of `Page_Write`; uses `address`, `data`, and `length` in bytes of whole pages. */
    PRISM_OPERATION_PAGE_WRITE = 1,
    /* Operation of `Block_Erase`; uses `address`. */
    PRISM_OPERATION_BLOCK_ERASE = 2,
    /* Operation of `Flash_Read`; uses `address`, `data`, `length` and `offset`. */
    PRISM_OPERATION_FLASH_READ = 3,
    /* Operation of `Flash_Write`; uses `address`, `data`, `length` and `mark`. */
    PRISM_OPERATION_FLASH_WRITE = 4,
    /* Operation of `FTL_Read`; uses `offset`, `data` and `length`. */
    PRISM_OPERATION_FTL_READ = 5,
    /* Operation of `FTL_Write`; uses `offset`, `data` and `length`. */
    PRISM_OPERATION_FTL_WRITE = 6,
    /* Operation of `FTL_Trim`; uses `offset` and `length`. */
    PRISM_OPERATION_FTL_TRIM = 7,
    /* Operation of `FTL_Flush`. */
    PRISM_OPERATION_FTL_FLUSH = 8,
} prism_operation;

/* Asynchronous operation, for `prism_submit`. */
typedef struct prism_request {
    /* The caller's identifier of the request; `prism_poll` returns it. */
    uint64_t token;
    /* Operation to run, a `prism_operation`. */
    uint32_t operation;
    /* The application's own word beside the data, for `FLASH_WRITE`. */
    uint32_t mark;
    /* Address of the page or block, at the raw and function levels. */
    prism_address address;
    /*
     * For `FLASH_READ`, the offset from the beginning of the page, in bytes of whole sectors. At the policy
     * level, the first byte.
     */
    uint64_t offset;
    /*
     * Source or destination of the data. `prism_submit` copies data to write before it returns. The
     * `prism_poll` that returns the completion stores data read here, so the memory must exist until then.
     */
    void *data;
    /* Length of the data in bytes. */
    uint64_t length;
} prism_request;

/* Completion of a submitted operation. */
typedef struct prism_completion {
    /* The caller's identifier of the request. */
    uint64_t token;
    /* Time of completion, in nanoseconds of the drive's time. */
    uint64_t at_ns;
    /* Status of the operation. */
    prism_status status;
} prism_completion;

/* Open drive with its flash monitor. Any number of threads may use it at once; their calls take turns. */
typedef struct prism_drive prism_drive;

/* Open level on an application's flash. It keeps its drive open. Any number of threads may use it at once. */
typedef struct prism_level prism_level;

/* ---- Drives */

/*
 * Returns the library's interface version. A program compares it with the `PRISM_API_VERSION` that it was
 * compiled with.
 */
uint32_t prism_api_version(void);

/*
 * Returns a sentence about this thread's last call that did not end with `PRISM_STATUS_OK`. It stays until
 * the thread's next such call.
 */
const char *prism_error(void);

/* Returns the name of a status, as one word. */
const char *prism_status_name(uint32_t status);

/*
 * Opens a drive and its flash monitor; blank media get a new monitor. `uri` is one of:
 * - a preset or the path of a description, optionally with settings: `open-channel,drive.media.blocks=64`.
 *   The drive is modelled in this process, and its data are in memory unless the settings say
 *   `drive.media.store=file:PATH`.
 * - `nvme+tcp://HOST:PORT`, optionally with `/NQN`: an open-channel or zoned drive that another process or
 *   machine serves.
 * - `file:PATH`, optionally with `,size=10GiB`: a block device, or a plain file, which is created if it does
 *   not exist and a size is given.
 *
 * `flags`: 0, `PRISM_REAL_TIME`, `PRISM_FORMAT`, or their sum.
 *
 * Needs: `uri` is a string; a pointer can be stored at `drive`.
 */
prism_status prism_open(const char *uri, uint32_t flags, prism_drive **drive);

/*
 * Closes a drive; null is ignored. The drive lives on while a level on it is open. Completions that were not
 * polled are lost.
 *
 * Needs: The handle is open, and no other call uses it.
 */
void prism_close(prism_drive *drive);

/*
 * Returns the layout of the whole drive, including the flash that no application sees.
 *
 * Needs: The handle is open; a geometry can be stored at `geometry`.
 */
prism_status prism_drive_geometry(const prism_drive *drive, prism_geometry *geometry);

/*
 * Returns the number of LUNs that no application owns, and the bytes that an application can store in one.
 * Each of the last two pointers may be null.
 *
 * Needs: The handle is open; the results can be stored.
 */
prism_status prism_free_luns(const prism_drive *drive, uint32_t *luns, uint64_t *lun_bytes);

/*
 * Returns the drive's time in nanoseconds: simulated time, or time since it was opened. Returns 0 if the
 * handle is null.
 *
 * Needs: The handle is open.
 */
uint64_t prism_now_ns(const prism_drive *drive);

/* ---- Applications */

/*
 * Allocates flash to a new application, in whole LUNs, round robin over channels: as many as `capacity` bytes
 * need, and `over_provisioning_percent` % more. The application keeps it until it is released, also over
 * restarts.
 *
 * Needs: The handle is open; `name` is a string.
 */
prism_status prism_allocate(const prism_drive *drive, const char *name, uint64_t capacity, uint32_t over_provisioning_percent);

/*
 * Releases the flash of an application; its data are lost. None of its levels may be open.
 *
 * Needs: The handle is open; `name` is a string.
 */
prism_status prism_release(const prism_drive *drive, const char *name);

/*
 * Returns an application's statistics since the drive was opened.
 *
 * Needs: The handle is open; `name` is a string; the statistics can be stored.
 */
prism_status prism_statistics_of(const prism_drive *drive, const char *name, prism_statistics *statistics);

/* ---- Levels */

/*
 * Opens the raw level on the flash of an application.
 *
 * Needs: The handle is open; `name` is a string; a pointer can be stored at `level`.
 */
prism_status prism_open_raw(const prism_drive *drive, const char *name, prism_level **level);

/*
 * Opens the function level on the flash of an application. `prism_found_blocks` lists the blocks that hold
 * data. If there are any, all calls but that one and `prism_recover` are refused until `prism_recover` has
 * named the blocks that are still needed.
 *
 * Needs: The handle is open; `name` is a string; a pointer can be stored at `level`.
 */
prism_status prism_open_function(const prism_drive *drive, const char *name, prism_level **level);

/*
 * Opens the policy level on the flash of an application. Reads and writes need a range that `FTL_Ioctl` has
 * set up.
 *
 * Needs: The handle is open; `name` is a string; a pointer can be stored at `level`.
 */
prism_status prism_open_policy(const prism_drive *drive, const char *name, prism_level **level);

/*
 * Closes a level once its operations under way have ended; null is ignored. If the call ends with
 * `PRISM_STATUS_BUSY`, the level is still open.
 *
 * Needs: The handle is open, and no other call uses it.
 */
prism_status prism_close_level(prism_level *level);

/*
 * Returns the layout of the application's flash; every level has it.
 *
 * Needs: The handle is open; a geometry can be stored.
 */
prism_status Get_SSD_Geometry(const prism_level *level, prism_geometry *geometry);

/* ---- Raw level */

/*
 * Reads `pages` pages of one block.
 *
 * Needs: The handle is open; `pages` pages can be stored at `data`.
 */
prism_status Page_Read(const prism_level *level, prism_address address, void *data, uint32_t pages);

/*
 * Writes the next `pages` pages of one block. The pages of a block are written in order, each once between
 * two erases.
 *
 * Needs: The handle is open; `pages` pages are at `data`.
 */
prism_status Page_Write(const prism_level *level, prism_address address, const void *data, uint32_t pages);

/*
 * Erases the block of `address`.
 *
 * Needs: The handle is open.
 */
prism_status Block_Erase(const prism_level *level, prism_address address);

/*
 * Writes as `Page_Write` does, with the application's own bytes beside the data: `PRISM_OOB_SIZE` for each
 * sector.
 *
 * Needs: The handle is open; `pages` pages are at `data`, and the bytes beside them at `oob`.
 */
prism_status prism_page_write_oob(const prism_level *level, prism_address address, const void *data, const void *oob, uint32_t pages);

/*
 * Reads as `Page_Read` does, with the bytes beside the data: `PRISM_OOB_SIZE` for each sector.
 *
 * Needs: The handle is open; `pages` pages can be stored at `data`, and the bytes beside them at `oob`.
 */
prism_status prism_page_read_oob(const prism_level *level, prism_address address, void *data, void *oob, uint32_t pages);

/* ---- Function level */

/*
 * Returns the number of channels of the application's flash; 0 if the handle is null.
 *
 * Needs: The handle is open.
 */
uint32_t Get_SSD_Channels(const prism_level *level);

/*
 * Hands out a block of a channel, or a page with `PRISM_MAPPING_PAGE`, and returns the number of blocks that
 * the channel can still hand out. `mapping` is a `prism_mapping`; `free_blocks` may be null.
 *
 * Needs: The handle is open; the results can be stored.
 */
prism_status Address_Mapper(const prism_level *level, uint32_t channel, prism_address *address, uint32_t mapping, uint32_t *free_blocks);

/*
 * Gives back the block of `address`, whose data are no longer needed. It is erased in the background, once no
 * read uses it.
 *
 * Needs: The handle is open.
 */
prism_status Flash_Trim(const prism_level *level, prism_address address);

/*
 * Swaps the data of the most worn and the least worn full block if that reduces wear imbalance, and returns
 * the spread of erase counts. `shuffled` has room for `pairs` pairs of addresses, which the application swaps
 * in its map; `found` returns their number: one, none, or seldom more if flash has failed. `variance` is the
 * variance of the erase counts of mapped blocks. Pointers to results may be null.
 *
 * Needs: The handle is open; the results can be stored, and twice as many addresses as `pairs` at `shuffled`.
 */
prism_status Wear_Leveler(const prism_level *level, prism_address *shuffled, uint32_t pairs, uint32_t *found, float *variance);

/*
 * Reserves `percent` % of the application's blocks, which are not handed out. The call is refused while too
 * many blocks are handed out; `prism_error` says how many have to be given back.
 *
 * Needs: The handle is open.
 */
prism_status Flash_SetOPS(const prism_level *level, uint32_t percent);

/*
 * Reads `length` bytes of one block, in whole sectors, starting at the page of `address`.
 *
 * Needs: The handle is open; `length` bytes can be stored at `data`.
 */
prism_status Flash_Read(const prism_level *level, prism_address address, uint64_t length, void *data);

/*
 * Writes `length` bytes to one block, in whole pages, starting at the page of `address`, which must be the
 * block's next page.
 *
 * Needs: The handle is open; `length` bytes are at `data`.
 */
prism_status Flash_Write(const prism_level *level, prism_address address, uint64_t length, const void *data);

/*
 * Writes as `Flash_Write` does, and stores the application's own word beside the data; `prism_found_blocks`
 * lists it after a restart.
 *
 * Needs: The handle is open; `length` bytes are at `data`.
 */
prism_status prism_flash_write_marked(const prism_level *level, prism_address address, uint32_t mark, uint64_t length, const void *data);

/*
 * Lists the blocks that held data when the function level was opened: stores at most `room` of them, and
 * returns their number in `count`.
 *
 * Needs: The handle is open; `room` blocks can be stored at `blocks`, and their number at `count`.
 */
prism_status prism_found_blocks(const prism_level *level, prism_found *blocks, uint32_t room, uint32_t *count);

/*
 * Names the found blocks that are still needed. They are mapped from now on; all others are erased in the
 * background.
 *
 * Needs: The handle is open; `count` addresses are at `blocks`.
 */
prism_status prism_recover(const prism_level *level, const prism_address *blocks, uint32_t count);

/* ---- Policy level */

/*
 * Sets up the byte range from `begin` to before `end`: its mapping (a `prism_mapping`), its garbage
 * collection policy (a `prism_gc`), and its over-provisioning in percent of its size. The call waits until
 * the range has found its data. A range that was set up before must be identical in everything but `gc`. A
 * level has at most 8 ranges, which do not overlap.
 *
 * Needs: The handle is open.
 */
prism_status prism_ftl_ioctl(const prism_level *level, uint32_t mapping, uint32_t gc, uint64_t begin, uint64_t end, uint32_t over_provisioning_percent);

/*
 * Sets up a range as `prism_ftl_ioctl` does, with 25 % of over-provisioning.
 *
 * Needs: The handle is open.
 */
prism_status FTL_Ioctl(const prism_level *level, uint32_t mapping, uint32_t gc, uint64_t begin, uint64_t end);

/*
 * Removes the range from `begin` to before `end`, which this run or an earlier one set up. Its data are lost,
 * and another range can use its flash. The call waits until the range is removed. It is refused while
 * operations of the range are under way.
 *
 * Needs: The handle is open.
 */
prism_status prism_ftl_remove(const prism_level *level, uint64_t begin, uint64_t end);

/*
 * Reads `length` bytes, in whole sectors, starting at byte `at`. Unwritten bytes read as zeros.
 *
 * Needs: The handle is open; `length` bytes can be stored at `data`.
 */
prism_status FTL_Read(const prism_level *level, uint64_t at, void *data, uint64_t length);

/*
 * Writes `length` bytes, in whole sectors, starting at byte `at`. They survive a crash once `FTL_Flush` has
 * ended.
 *
 * Needs: The handle is open; `length` bytes are at `data`.
 */
prism_status FTL_Write(const prism_level *level, uint64_t at, const void *data, uint64_t length);

/*
 * Discards `length` bytes, in whole sectors, starting at byte `at`. They read as zeros.
 *
 * Needs: The handle is open.
 */
prism_status FTL_Trim(const prism_level *level, uint64_t at, uint64_t length);

/*
 * Flushes all earlier writes to the flash.
 *
 * Needs: The handle is open.
 */
prism_status FTL_Flush(const prism_level *level);

/* ---- Without waiting */

/*
 * Begins an operation without waiting for its end; `prism_poll` reports its completion. An operation that is
 * refused here has no completion.
 *
 * Needs: The handle is open; `request` is a request, and its data are as it says.
 */
prism_status prism_submit(const prism_level *level, const prism_request *request);

/*
 * Returns completions of operations on all levels of the drive: stores at most `room` of them, and returns
 * their number in `count`. The call waits until `least` operations, or all that are under way, have ended.
 * With `least` 0 it returns immediately; virtual time then stands still.
 *
 * Needs: The handle is open; `room` completions can be stored, and their number at `count`.
 */
prism_status prism_poll(const prism_drive *drive, prism_completion *completions, uint32_t room, uint32_t least, uint32_t *count);

/*
 * Waits until nothing is under way on the drive: neither operations nor erases in the background.
 *
 * Needs: The handle is open.
 */
prism_status prism_rest(const prism_drive *drive);

#ifdef __cplusplus
}
#endif

#endif
