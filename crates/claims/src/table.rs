//! The table of claims: identifier, place of publication, text, limit, and the function that runs it.

use super::{
    Basis, Claim, Paper, cache, chunks, clock, collection, data_sheets, fifo, file_system, flashfire, graph,
    integrity, jasmine, latency, maps, nameless, one_shot, pblk, placement, policies, predictable, prism,
    solid_state_cache, split, throughput, wear, zones,
};

macro_rules! cosmos {
    ($id:literal, $place:literal, $text:literal, $holds_when:literal, $basis:ident, $set:literal, $run:path) => {
        Claim {
            id: $id,
            paper: Paper::CosmosPlus,
            place: $place,
            text: $text,
            holds_when: $holds_when,
            basis: Basis::$basis,
            set_or_seen: $set,
            run: $run,
        }
    };
}

macro_rules! prism {
    ($id:literal, $place:literal, $text:literal, $holds_when:literal, $basis:ident, $set:literal, $run:path) => {
        Claim {
            id: $id,
            paper: Paper::Prism,
            place: $place,
            text: $text,
            holds_when: $holds_when,
            basis: Basis::$basis,
            set_or_seen: $set,
            run: $run,
        }
    };
}

macro_rules! flashfire {
    ($id:literal, $place:literal, $text:literal, $holds_when:literal, $basis:ident, $set:literal, $run:path) => {
        Claim {
            id: $id,
            paper: Paper::FlashFire,
            place: $place,
            text: $text,
            holds_when: $holds_when,
            basis: Basis::$basis,
            set_or_seen: $set,
            run: $run,
        }
    };
}

pub(super) static CLAIMS: &[Claim] = &[
    cosmos!(
        "C1",
        "6.2, Fig. 21",
        "sequential reads of 128 KiB, 16 outstanding, reach 1,275 MB/s on 8 channels x 8 ways",
        "within 5 %, in SLC and in MLC mode",
        Seen,
        "known when the model was chosen; its constants are those of C6",
        throughput::maximum
    ),
    cosmos!(
        "C2",
        "Fig. 21",
        "throughput grows in proportion to the channels",
        "8 channels give 7.5 to 8.05 times the reads of one, at 8 ways",
        Seen,
        "as C1",
        throughput::over_channels
    ),
    cosmos!(
        "C3",
        "Fig. 21",
        "throughput grows with the ways until the channel or the array time bounds it",
        "no step to more ways loses more than 1 %, and a second way gives 1.8 to 2.05 times the writes, at any number of channels",
        Prediction,
        "follows from constants fitted to C6",
        throughput::over_ways
    ),
    cosmos!(
        "C4",
        "6.2, Fig. 21",
        "MLC writes reach about half of SLC writes",
        "0.4 to 0.6, on 8 channels x 8 ways",
        Prediction,
        "as C3",
        throughput::mlc_writes
    ),
    cosmos!(
        "C5",
        "6.3, Fig. 22",
        "random 4 KiB at 128 outstanding: IOPS are the throughput of Fig. 21 divided by the 16 KiB page",
        "within 10 %, on 8 channels x 8 ways",
        Seen,
        "as C1",
        throughput::small_random
    ),
    cosmos!(
        "C6",
        "Table 7",
        "latency of 16 KiB requests at 1, 4, 16 and 64 outstanding, split into host interface, firmware and \
         storage controller",
        "each system latency within 2.5 % and their errors 0.9 % root mean square; each part 10 % root mean square",
        Fitted,
        "ten constants to the visible columns of Table 7; 16.6 us of an MLC write are left out; range over the mean program of the 64 devices",
        latency::split
    ),
    cosmos!(
        "C7",
        "6.4, Fig. 24",
        "throughput is proportional to the outstanding requests up to 8, less beyond, and reads flatten before writes",
        "8 outstanding give, within 5 %, as many times one as Table 7's growth from 1 to 4 continued (7.0 reads, 7.6 and 7.8 \
         writes); 64 as many times 16 as Table 7 by Little's law (1.4 reads, 2.9 and 3.4 writes); reads gain less from 8 to 64 \
         than writes",
        Partly,
        "growth from 1 to 4 outstanding is Table 7's; 8 and 64 follow",
        latency::outstanding
    ),
    cosmos!(
        "C8",
        "6.5, Figs. 25, 26",
        "ChPrev is fastest at all sizes with devC = 0; WayPrev has devW = 0 and equals ChPrev at 1,024 KB; Random beats \
         WayPrev when small; at 256 KB its reads do and its writes do not",
        "every order; equal is within 3 %",
        Prediction,
        "as C3",
        placement::schemes
    ),
    cosmos!(
        "C9",
        "7.1, Fig. 27",
        "a slower processor costs more the more flash devices there are, and reads more than writes; fewer devices \
         saturate at a lower clock",
        "every order, between 1,000 and 200 MHz",
        Seen,
        "as C1",
        clock::frequencies
    ),
    cosmos!(
        "C10",
        "7.3, Fig. 30",
        "the scrambler makes no difference at few P/E cycles, avoids up to 13.7 % of the bit errors at 5,000, and does \
         nothing for pattern 11-00",
        "each within 3 points",
        Partly,
        "the weight of interference to the 13.7 % at 5,000 cycles; few cycles and pattern 11-00 follow",
        integrity::scrambler
    ),
    cosmos!(
        "C11",
        "5, 7.2",
        "BCH corrects 13 bits in 256 bytes; a key-equation solver shared by four channels costs little",
        "no chunk wrong; less than 2 % throughput",
        Prediction,
        "follows from the code and the constants of C6",
        integrity::error_correction
    ),
    cosmos!(
        "C12",
        "7.4, Fig. 32",
        "3D TLC programmed in one shot (1,600 us for three pages) uses the channels more than MLC does",
        "utilisation while writing, and TLC's to MLC's, as page transfers and program time have it with 128 pages outstanding: \
         each within 15 %, the ratio 10 %",
        Prediction,
        "published program time; as C3",
        one_shot::utilisation
    ),
    cosmos!(
        "C13",
        "7.5, Figs. 33, 37",
        "as an open-channel SSD under pblk, write throughput is steady over outstanding requests; with many it is below the \
         block drive's, reads are below writes, and four ways of a channel or fewer are active",
        "most / least write throughput at most 1.1; every order at 64 outstanding",
        Prediction,
        "as C3, with pblk's settings of the paper",
        pblk::throughput
    ),
    cosmos!(
        "C14",
        "7.5, Figs. 34, 35",
        "many writes of the application end faster than a program; their latency grows with the outstanding requests, and the \
         drive's does not",
        "half of the writes with 16 outstanding; the median 1.5 times for four times as many; the drive's mean within 10 %",
        Prediction,
        "as C13",
        pblk::latency
    ),
    cosmos!(
        "C15",
        "6.4, 7.1",
        "a significant portion of the firmware's time on 8 x 8 is that of issuer and status checker; it grows with the flash \
         devices, and the status checker's with the outstanding requests",
        "issuer and status checker have at least what two of the firmware's seven parts would have if all had the same, 29 %; \
         each step to more devices, and 64 outstanding reads against one, take no less of the processor's time",
        Seen,
        "the published shares are held out; that the constants before the last gave the scheduler too much was known",
        split::time
    ),
    Claim {
        id: "L1",
        paper: Paper::LightNvm,
        place: "4, Fig. 3",
        text: "4 KiB random reads beside 64 KiB writes, one of each outstanding, at 100/0, 80/20, 66/33 and 50/50: parallel units \
               of their own keep the reads' percentiles flat; a block drive's rise at 80/20 already",
        holds_when: "p95 and p99 within 5 % of 100/0, where the same streams on the same units have p99 four times as long at 80/20; the block \
                     drive's at least 5 % higher at 80/20, and rising",
        basis: Basis::Seen,
        set_or_seen: "the write buffer of the block drive is assumed, and decides how its percentiles rise",
        run: predictable::isolation,
    },
    Claim {
        id: "L2",
        paper: Paper::LightNvm,
        place: "2",
        text: "the physical-page-address commands: geometry, chunk report, vector read, write, copy, reset, notification",
        holds_when: "every case of the conformance suite",
        basis: Basis::Exact,
        set_or_seen: "a conformance suite",
        run: chunks::conformance,
    },
    Claim {
        id: "B1",
        paper: Paper::Theory,
        place: "closed form",
        text: "write amplification of greedy collection under uniform random 4 KiB writes at 7, 10, 14, 28 and 30 % \
               over-provisioning is a/(a + W0(-a e^-a)), a = 1 + over-provisioning",
        holds_when: "each within 3 %, blocks of 256 pages",
        basis: Basis::Exact,
        set_or_seen: "closed form",
        run: collection::greedy,
    },
    Claim {
        id: "B2",
        paper: Paper::CacheLib,
        place: "device figures",
        text: "a cache's two streams (4 % of the space random 4 KiB, the rest a sequential log): write amplification 1.03 with a \
               placement handle each; mixed 1.22 at 50 % and 3.22 at 100 % utilisation",
        holds_when: "apart within 0.05, and with little spare space as the buckets alone have it by the closed form of B1; mixed within \
                     15 %",
        basis: Basis::Partly,
        set_or_seen: "bytes of small objects and over-provisioning to the two mixed figures; apart follows",
        run: cache::streams,
    },
    Claim {
        id: "B3",
        paper: Paper::Zns,
        place: "device figures",
        text: "zones against a block drive of the same media, with 0 against 7 and 28 % over-provisioning: beside writes, the \
               99.9th percentile of random reads is 2 to 4 times lower",
        holds_when: "lower at every rate of writes; 2 to 4 times without a limit, and as the geometric mean over the rates that both \
                     drives keep, for each block drive",
        basis: Basis::Prediction,
        set_or_seen: "suspensions are fitted to other measurements",
        run: zones::tail,
    },
    Claim {
        id: "B5",
        paper: Paper::Theory,
        place: "closed forms",
        text: "write amplification of victim policies, 64 random writes outstanding and no limit, is that of theory: FIFO \
               a/(a + W0(-a e^-a)), random (1 + OP)/OP, greedy and d choices a mean field; LRU, cost-benefit and 80/20 writes as \
               in a plain simulation; 7 to 28 % over-provisioning, blocks of 16 to 256 pages",
        holds_when: "each within 3 %, and no victim chosen against the policy",
        basis: Basis::Exact,
        set_or_seen: "closed forms, and a plain simulation",
        run: policies::policies,
    },
    Claim {
        id: "B6",
        paper: Paper::Theory,
        place: "algorithms",
        text: "a map in flash whose cached table holds everything (DFTL) is the page map; log-block hybrids (BAST, FAST) merge as their \
               algorithms say: switch merges for writes in order, full merges with as many copies as a block has pages for \
               writes out of order",
        holds_when: "no key of the report differs; every count exactly as the geometry has it; random writes within 5 % of what follows \
                     in the mean",
        basis: Basis::Exact,
        set_or_seen: "counts of the algorithms",
        run: maps::maps,
    },
    Claim {
        id: "B7",
        paper: Paper::DataSheets,
        place: "data sheets",
        text: "`datacenter-tlc` is as fast as a Micron 7450 PRO and `client-qlc` as an Intel SSD 670p: random reads and writes at depth 1 \
               and 256, sequential reads and writes",
        holds_when: "each within 20 %",
        basis: Basis::Partly,
        set_or_seen: "latency of the controllers, decoding and programs to some rows of the data sheets",
        run: data_sheets::figures,
    },
    Claim {
        id: "B8",
        paper: Paper::Theory,
        place: "wear levelling",
        text: "static wear levelling keeps the erase counts of a die within its gap while a fifth of the pages is overwritten, whether the \
               host never pauses or leaves the drive time",
        holds_when: "most erased block - least erased one at most 9 with a gap of 8, with 64 writes outstanding and at 150 writes a second",
        basis: Basis::Exact,
        set_or_seen: "the gap that is set",
        run: wear::levelling,
    },
    Claim {
        id: "B4",
        paper: Paper::Theory,
        place: "closed form",
        text: "a FIFO cache on flash, under uniform writes, holds 1 - e^(-S/K) of K keys in S slots",
        holds_when: "within 1 point, at 0.5 to 1.5 keys for a slot of flash",
        basis: Basis::Exact,
        set_or_seen: "closed form",
        run: fifo::uniform,
    },
    prism!(
        "P1",
        "VI-A, Fig. 4",
        "a cache of 6 to 12 % of the data, in front of a database: hit ratio 71.1 to 87.3 % with static over-provisioning, 76.5 to \
         94.8 % with dynamic",
        "each end within 3 points; the static ends are fitted, so no prediction",
        Partly,
        "scale and shape of the popularity to the two static ends; dynamic ends follow",
        prism::hit_ratios
    ),
    prism!(
        "P2",
        "VI-A, Fig. 5",
        "throughput with a cache of 10 %: Raw over Original, Function and Policy by 9.2, 0.4 and 8.8 %",
        "within 5 points, and the order; equal is within 0.2 %",
        Seen,
        "cost of the kernel's path, LUNs, clients and memory were chosen in sight of results",
        prism::throughput
    ),
    prism!(
        "P3",
        "VI-A, Fig. 6",
        "throughput of the cache server with sets only: Raw over Original, Function and Policy by 27.6, 5.2 and 15.5 %, Policy over \
         Original by 10.2 %, Raw as DIDACache; the gain shrinks as gets grow",
        "within 8 points, and every order",
        Seen,
        "costs of the kernel's path, clients and memory as P2; on the paper's drive; range over its LUNs",
        prism::ratios
    ),
    prism!(
        "P4",
        "VI-A, Fig. 7",
        "mean latency with sets only: Raw below Function below Policy below Original",
        "every order",
        Seen,
        "as P3",
        prism::latency
    ),
    prism!(
        "P5",
        "VI-A, Table I",
        "garbage collection of 50 GB of sets on 30 GB: key-values and pages copied, and erases, of the engines over those of Original",
        "ratios to Original within 15 %, and no page copied below the engines that own or map blocks; Original's own copies are fitted, so no prediction",
        Partly,
        "deviation of the law of keys to Original's copies; range over the LUNs of the flash",
        prism::collection
    ),
    prism!(
        "P6",
        "VI, Table IV",
        "code that an application has for a level of the library: raw (1,450 lines of the cache) above function (860 of the cache, 660 of the file system) \
         above policy (210 of the cache, 490 of the graph engine)",
        "every order, over the applications, lines counted from the sources by a script",
        Exact,
        "counted lines",
        prism::lines
    ),
    prism!(
        "U1",
        "VI-B, Fig. 8",
        "file servers on a log-structured file system: on the flash library's function level it is faster than on a drive with fileserver, \
         webserver and varmail, with varmail by 21.5 %",
        "every order; the gain with varmail within 10 points",
        Seen,
        "scale and number of blocks; open segments of ULFS-SSD follow from Table II's equal file copies, how files are picked from filebench; range over these, segments and fill",
        file_system::throughput
    ),
    prism!(
        "U2",
        "VI-B, Table II",
        "garbage collection of these file systems and of one that writes in place: both log-structured ones copy 9.82 GB of files; on flash \
         7.24 GB, nothing on the function level, 9.37 GB in place; 6,594, 5,280 and 5,429 erases",
        "nothing copied below the function level; ratios within 15 %",
        Partly,
        "fill to ULFS-Prism's row, share of the drive's addresses in use to those of the block drives; lengths follow from the paper's blocks and files and were asked before; range over open segments, fill, rotations, that share and rounds of the log",
        file_system::collection
    ),
    prism!(
        "G1",
        "VI-C, Fig. 9",
        "PageRank on a graph like LiveJournal's, out of core, on the flash library's policy level and on a drive behind the kernel: \
         preprocessing takes 5.2 % less time, the iterations 7.6 %, both 5.7 %",
        "each within 5 points",
        Partly,
        "cost of an edge to the published percentages",
        graph::page_rank
    ),
    Claim {
        id: "J1",
        paper: Paper::Jasmine,
        place: "3.1.1, Table 2",
        text: "writes on the reference firmware, IO/s: random 4, 16, 32, 128 and 512 KB 2,560, 1,920, 2,912, 648 and 132; sequential 4 KB \
               15,616, and with requests limited to 32 KB 20,736",
        holds_when: "within 10 % each",
        basis: Basis::Partly,
        set_or_seen: "program time to 32 KB and sequential 4 KB, filled share to 4 KB, page cache and largest request to sizes of requests; other rows follow",
        run: jasmine::table,
    },
    Claim {
        id: "J2",
        paper: Paper::Jasmine,
        place: "3.1.2, Fig. 3",
        text: "with a merge buffer random writes of 4 KB are 9 times the baseline, near 22,528 IO/s and 1 % below sequential ones, which \
               gain 22 %",
        holds_when: "within 10 % each",
        basis: Basis::Prediction,
        set_or_seen: "follows from J1",
        run: jasmine::merge_buffer,
    },
    Claim {
        id: "J3",
        paper: Paper::Jasmine,
        place: "3.1.2, Fig. 4",
        text: "reads: 125 MB/s in order, 2,340 IO/s at random; with a read buffer random ones twice as fast, sequential ones 30 % slower",
        holds_when: "within 10 % each",
        basis: Basis::Partly,
        set_or_seen: "two costs of the read buffer to its two ratios; rates of the baseline follow",
        run: jasmine::read_buffer,
    },
    Claim {
        id: "S1",
        paper: Paper::Jasmine,
        place: "4.2, Fig. 7",
        text: "fileserver on a solid-state cache over the same flash as a block drive under FlashCache: +52 % with write-back, +45 % with write-through",
        holds_when: "within 10 points each",
        basis: Basis::Seen,
        set_or_seen: "mechanisms by source, sizes ours; a full block drive follows from S2's number; where files lie was asked after write-through was known \
                      to be reversed, and the other manager's cleaner, asked before, was adopted after write-back was; range over the drive, how its \
                      banks collect, FlashCache's tunables, files and that cleaner, written down before it was run",
        run: solid_state_cache::fileserver,
    },
    Claim {
        id: "S2",
        paper: Paper::Jasmine,
        place: "4.2",
        text: "the solid-state cache erases 90 % fewer blocks on fileserver, in both modes",
        holds_when: "at least 80 % fewer",
        basis: Basis::Seen,
        set_or_seen: "as S1",
        run: solid_state_cache::erases,
    },
    Claim {
        id: "S3",
        paper: Paper::Jasmine,
        place: "4.2, Fig. 7",
        text: "webserver gains nothing from silent eviction, and loses little",
        holds_when: "within 3 % in both modes",
        basis: Basis::Seen,
        set_or_seen: "as S1, on an empty drive; firmware alone decides it",
        run: solid_state_cache::webserver,
    },
    Claim {
        id: "S4",
        paper: Paper::Jasmine,
        place: "4.2, Fig. 7",
        text: "varmail with write-back: the solid-state cache is 27 % above the block drive, whose records cost more than a log in the drive",
        holds_when: "within 10 points",
        basis: Basis::Seen,
        set_or_seen: "as S1; a range over what a flush reaches, length, files and the disk's write cache is there where it misses",
        run: solid_state_cache::varmail,
    },
    Claim {
        id: "N1",
        paper: Paper::Jasmine,
        place: "4.3, Table 4",
        text: "memory of the FTL for a file system of 4, 16 and 48 GB: page map 2.50, 17.8 and 52.8 MB; nameless writes 94, 325 and 803 KB",
        holds_when: "counted bytes within 15 % each, and at 10, 24 and 40 GB of the line between the published",
        basis: Basis::Seen,
        set_or_seen: "runs in the map of virtual sectors came after a miss was known; ranges over what is counted",
        run: nameless::memory,
    },
    Claim {
        id: "N2",
        paper: Paper::Jasmine,
        place: "4.3, Fig. 8",
        text: "4 KB requests: sequential writes and reads and random reads of the split FTL are like the baseline's; its random writes are above \
               the baseline's and below sequential ones",
        holds_when: "within 10 %; order",
        basis: Basis::Seen,
        set_or_seen: "constants of J1 and J3; which request a write joins was asked after a miss was known; ranges over that and the writes that wait",
        run: nameless::performance,
    },
    flashfire!(
        "F1",
        "4.5.1, Tables 2, 3",
        "an installation of Office: 35,055 requests of 2,693,322 sectors go into the buffer, and 2,222 requests of 2,048 sectors come out",
        "each within 10 %; what comes out is fitted, so no prediction",
        Fitted,
        "share of small writes that go anywhere to Table 3",
        flashfire::requests_in_and_out
    ),
    flashfire!(
        "F2",
        "4.4, Fig. 20",
        "erases with the buffer are 18 % of those without, as the geometric mean of four workloads on a log-block map",
        "within 5 points",
        Seen,
        "volume of F1; number of log blocks assumed; where new files are entered was asked after F3's extraction was known to be off",
        flashfire::erase_counts
    ),
    flashfire!(
        "F3",
        "4.3, Figs. 15 to 19",
        "elapsed time with the buffer over that without, as the geometric mean of five drives: MP3 copy 50 %, Linux extraction 35 %, Office install \
         52 %, uninstall 35 %, browsing 52 %; in words: each drive gains by copying and extracting; SSD-1 to -4 gain much by installing and uninstalling, \
         SSD-5 loses slightly by the one and gains modestly by the other",
        "each within 10 points",
        Partly,
        "time of a page was looked for after browsing had missed; that tables stand beside the buffer was asked after SSD-5 was known to be reversed; as \
         F2; ranges over the host's time and the places of an uninstallation",
        flashfire::elapsed
    ),
    flashfire!(
        "F4",
        "4.5.2, Fig. 21",
        "a buffer of less than 16 MB costs performance",
        "the order, for MP3 copy and Office install",
        Prediction,
        "volume of F1; number of log blocks assumed",
        flashfire::buffer_size
    ),
    flashfire!(
        "F5",
        "4.2.1, Figs. 9 to 13",
        "small writes gain on every drive, those of 8 KB on drive 5 by 73 %; reads lose slightly",
        "within 15 points, and the order; slightly is at most 20 %",
        Partly,
        "buffer of SSD-5 chosen by outcome; the others follow",
        flashfire::throughput
    ),
    flashfire!(
        "F6",
        "4.5.3, Fig. 22",
        "on NTFS the buffer gains more than on FAT32, which writes less at random",
        "the order, as the geometric mean of four workloads",
        Seen,
        "as F2",
        flashfire::file_systems
    ),
    flashfire!(
        "F7",
        "1, Fig. 1",
        "random writes of 4 KB: four of the five drives are much slower than a disk, the fifth is not",
        "SSD-1 to -4 have at most half of the disk's writes a second, SSD-5 at least half",
        Seen,
        "drives of F3; that the fifth is below a desktop's disk was known; range over the disk",
        flashfire::small_writes
    ),
    flashfire!(
        "F8",
        "4.3, Fig. 14",
        "sizes of writes: over 96 % of 64 KB (MP3 copy), over 90 % below 8 KB (Linux), 51 % of 64 KB and 28 % up to 4 KB (Office install), \
         mainly small (uninstall)",
        "within 1 point, the 28 % within 5; mainly is more than half",
        Fitted,
        "sizes are put in from this text and Table 2; the 28 % are not",
        flashfire::write_sizes
    ),
];
