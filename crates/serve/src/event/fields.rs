//! Names and values of each event, in the order of the log.

use super::*;

const KEEPS_NOTHING: &str = "durability = volatile: hosts are told of no flush and no forced writes; \
                             a power cut and a restart may undo whatever was written";
const NEWER_THAN_STORE: &str = "only the cache drive has their newest data: without it the backing store is an old one, and nothing else may write to it; \
                                `pellucid detach` writes them back";
const AS_MEDIA_ARE: &str =
    "a drive in service starts as its media are; an image by pellucid age, served instead, is preconditioned";

fn word(name: &'static str, value: impl Display) -> (&'static str, Value) {
    (name, Value::Word(value.to_string()))
}

fn text(name: &'static str, value: impl Display) -> (&'static str, Value) {
    (name, Value::Text(value.to_string()))
}

impl Event {
    /// Name of the event in the log.
    pub fn name(&self) -> &'static str {
        match self {
            Event::Drive(_) => "drive",
            Event::NotPreconditioned { .. } => "not-preconditioned",
            Event::MediaMade { .. } => "media-made",
            Event::Reachable { .. } => "reachable",
            Event::Ready => "ready",
            Event::Store { .. } => "store",
            Event::StoreNotice { notice: StoreNotice::Damaged { .. }, .. } => "store-damaged",
            Event::StoreNotice { notice: StoreNotice::Refused { .. }, .. } => "store-refused",
            Event::StoreNotice { notice: StoreNotice::CutOff { .. }, .. } => "store-cut-off",
            Event::StoreNotice { notice: StoreNotice::Deleted { .. }, .. } => "store-deleted",
            Event::StoreNotice { notice: StoreNotice::Recovered { .. }, .. } => "store-recovered",
            Event::StoreNotice { notice: StoreNotice::Blank { .. }, .. } => "store-blank",
            Event::StoreNotice { notice: StoreNotice::Exposed { .. }, .. } => "store-exposed",
            Event::Mounted { .. } | Event::LayerMounted { .. } => "mounted",
            Event::LayerNotice { .. } => "layer-notice",
            Event::CacheStarted { .. } => "cache-started",
            Event::MountFailed { .. } => "mount-failed",
            Event::PromisesNothing { .. } => "promises-nothing",
            Event::Listening { .. } => "listening",
            Event::AcceptFailed { .. } => "accept-failed",
            Event::AcceptingAgain { .. } => "accepting-again",
            Event::TurnedAway { .. } => "turned-away",
            Event::Connected { .. } => "connected",
            Event::Closed { .. } => "closed",
            Event::NotLogged { .. } => "not-logged",
            Event::LinesDropped { .. } => "lines-dropped",
            Event::Attached { .. } => "attached",
            Event::Detached { .. } => "detached",
            Event::UblkFailed { step: UblkStep::Start { .. }, .. } => "ublk-start-failed",
            Event::UblkFailed { step: UblkStep::Stop, .. } => "ublk-stop-failed",
            Event::UblkFailed { step: UblkStep::Delete { .. }, .. } => "ublk-delete-failed",
            Event::TargetReady { .. } => "target-ready",
            Event::TargetGone { .. } => "target-gone",
            Event::AppAllocated { .. } => "application-allocated",
            Event::AppReleased { .. } => "application-released",
            Event::Fault { .. } => "fault",
            Event::FaultNotStruck { .. } => "fault-not-struck",
            Event::PowerCut { .. } => "power-cut",
            Event::RemoteLost { .. } => "remote-lost",
            Event::RemoteAway { .. } => "remote-away",
            Event::RemoteBack { .. } => "remote-back",
            Event::RemoteGone { .. } => "remote-gone",
            Event::FileFailed { .. } => "file-failed",
            Event::RecordFailed { .. } => "record-failed",
            Event::Stopping { .. } => "stopping",
            Event::StillStopping { .. } => "still-stopping",
            Event::FlushFailed { .. } => "flush-failed",
            Event::StopFailed { .. } => "stop-failed",
            Event::CacheLost { .. } => "cache-lost",
            Event::CacheDetached { .. } => "cache-detached",
            Event::CacheDirty { .. } => "cache-dirty",
            Event::FirePaused { .. } => "fire-paused",
            Event::FireResumed { .. } => "fire-resumed",
            Event::Stopped => "stopped",
        }
    }

    /// Fields of the event.
    pub fn fields(&self) -> Fields {
        match self {
            Event::Drive(facts) => facts.fields(),
            Event::NotPreconditioned { drive } => vec![text("drive", drive), text("why", AS_MEDIA_ARE)],
            Event::MediaMade { drive, file } => vec![text("drive", drive), text("file", file)],
            Event::Reachable { drive, protocol, how } => vec![
                text("drive", drive),
                word("protocol", protocol),
                match how {
                    Reach::Uri(uri) => text("uri", uri),
                    Reach::Command(command) => text("command", command),
                },
            ],
            Event::Ready | Event::Stopped => Vec::new(),
            Event::Store { drive, extent: Extent { memory_max, reserved, file_max } } => {
                let mut fields = vec![text("drive", drive), word("memory_max_bytes", memory_max)];
                if *file_max > 0 {
                    fields.push(word("file_max_bytes", file_max));
                    fields.push(word("file_reserved_bytes", reserved));
                }
                fields
            }
            Event::StoreNotice { drive, notice } => vec![text("drive", drive), text("why", notice)],
            Event::Mounted { drive, report } => {
                let mut fields = mounted(drive, report);
                fields.push(word("headers", report.header_reads));
                fields
            }
            Event::LayerMounted { drive, figures } => {
                let figures = figures.iter().map(|figure| word(figure.name, figure.value));
                std::iter::once(text("drive", drive)).chain(figures).collect()
            }
            Event::LayerNotice { drive, why } => vec![text("drive", drive), text("why", why)],
            Event::CacheLost { drive, offset, bytes } => {
                vec![text("drive", drive), word("offset", offset), word("bytes", bytes)]
            }
            Event::CacheDirty { drive, blocks } => {
                vec![text("drive", drive), word("blocks", blocks), text("why", NEWER_THAN_STORE)]
            }
            Event::CacheDetached { drive } | Event::FirePaused { drive } | Event::FireResumed { drive } => {
                vec![text("drive", drive)]
            }
            Event::MountFailed { drive, why } | Event::StopFailed { drive, why } => {
                vec![text("drive", drive), text("why", why)]
            }
            Event::PromisesNothing { namespace } => {
                vec![text("namespace", namespace), text("why", KEEPS_NOTHING)]
            }
            Event::Listening { protocol, address, uri } => {
                let mut fields = vec![word("protocol", protocol), text("address", address)];
                fields.extend(uri.as_ref().map(|uri| text("uri", uri)));
                fields
            }
            Event::AcceptFailed { protocol, error } => vec![word("protocol", protocol), text("error", error)],
            Event::AcceptingAgain { protocol } => vec![word("protocol", protocol)],
            Event::TurnedAway { peer, why } => vec![text("peer", peer), text("why", why)],
            Event::Connected { connection, protocol, peer } => {
                vec![word("connection", connection), word("protocol", protocol), text("peer", peer)]
            }
            Event::CacheStarted { cache, items } => vec![text("cache", cache), word("items", items)],
            Event::NotLogged { events } => vec![word("events", events)],
            Event::LinesDropped { lines } => vec![word("lines", lines)],
            Event::Closed { connection, peer, why } => {
                vec![word("connection", connection), text("peer", peer), text("why", why)]
            }
            Event::Attached { by, drive } | Event::Detached { by, drive } => match by {
                User::Connection(connection) => vec![word("connection", connection), text("drive", drive)],
                User::Device(device) => vec![text("drive", drive), text("device", device)],
            },
            Event::UblkFailed { step, error } => match step {
                UblkStep::Start { drive } | UblkStep::Delete { drive } => {
                    vec![text("drive", drive), text("error", error)]
                }
                UblkStep::Stop => vec![text("error", error)],
            },
            Event::TargetReady { target, error } | Event::TargetGone { target, error } => {
                let mut fields = vec![text("target", target)];
                fields.extend(error.as_ref().map(|error| text("error", error)));
                fields
            }
            Event::AppAllocated { application, luns } => {
                vec![text("application", application), text("luns", luns.join(" "))]
            }
            Event::AppReleased { application } => vec![text("application", application)],
            Event::Fault { drive, fault, by, read_only, error } => {
                let mut fields = vec![text("drive", drive)];
                fields.extend(by.fields(fault));
                fields.extend(read_only.map(|read_only| word("read_only", read_only)));
                fields.extend(error.as_ref().map(|error| text("error", error)));
                fields
            }
            Event::FaultNotStruck { drive, fault, operations } => {
                vec![text("drive", drive), text("fault", fault), word("operations", operations)]
            }
            Event::PowerCut { drive, commands_lost, undone_host_sectors, by } => {
                let mut fields = vec![
                    text("drive", drive),
                    word("commands_lost", commands_lost),
                    word("undone_host_sectors", undone_host_sectors),
                ];
                fields.extend(by.fields("power-cut"));
                fields
            }
            Event::RemoteLost { remote, why, outstanding } => {
                vec![text("remote", remote), text("why", why), word("outstanding", outstanding)]
            }
            Event::RemoteAway { remote, why, again_ms } => {
                vec![text("remote", remote), text("why", why), word("again_ms", again_ms)]
            }
            Event::RemoteBack { remote, in_doubt, failed } => {
                vec![text("remote", remote), word("in_doubt", in_doubt), word("failed", failed)]
            }
            Event::RemoteGone { remote, why } => vec![text("remote", remote), text("why", why)],
            Event::FileFailed { file, why } => vec![text("file", file), text("why", why)],
            Event::RecordFailed { why } => vec![text("why", why)],
            Event::Stopping { reason, connections } => {
                vec![word("reason", reason), word("connections", connections)]
            }
            Event::StillStopping { seconds, connections, drives } => vec![
                word("seconds", seconds),
                word("connections", connections),
                text("drives", drives.join(", ")),
            ],
            Event::FlushFailed { drive, status } => {
                vec![text("drive", drive), word("status", format_args!("{status:?}"))]
            }
        }
    }
}

fn mounted(drive: &str, report: &MountReport) -> Fields {
    vec![
        text("drive", drive),
        word("translation_pages", report.map_page_reads),
        word("replayed", report.replay_reads),
        word("mapped", report.mapped_units),
        word("lost", report.lost_units),
        word("forgotten", report.forgotten_units),
        word("undone", report.undone_units),
    ]
}

impl By {
    /// Fields for the action and its originator.
    fn fields(&self, fault: &str) -> Fields {
        match self {
            By::Control(connection) => vec![text("fault", fault), word("connection", connection)],
            By::Plan { text: plan, operations } => vec![text("fault", plan), word("operations", operations)],
            By::Owner => Vec::new(),
        }
    }
}

impl DriveFacts {
    fn fields(&self) -> Fields {
        let time = match self.time {
            Time::Instant => "instant".to_owned(),
            Time::Paced { dilation: 1.0 } => "paced".to_owned(),
            Time::Paced { dilation } => format!("x{dilation}"),
        };
        vec![
            text("drive", &self.name),
            text("from", &self.from),
            word("kind", self.kind),
            word("capacity_bytes", self.capacity_bytes),
            word("sector_bytes", self.sector_bytes),
            text("store", &self.store),
            word("keeps", self.keeps.name()),
            word("time_mode", time),
        ]
    }
}
