//! Positions of sectors on the platters, and their times of passing under a head.
//!
//! Tracks are numbered in the order of addresses: all heads of a cylinder, then the next cylinder. The first sector of a track is turned
//! against that of the track before it (skew) by the time that the change of heads or cylinders takes, so a transfer that runs over the
//! end of a track loses that time and no revolution. Angles are times: nanoseconds of a revolution.

use super::config::DiskConfig;
use pellucid_flash::Nanos;

/// Tracks of one length.
#[derive(Clone, Copy, Debug)]
struct Zone {
    first_lba: u64,
    first_track: u64,
    track_sectors: u64,
}

/// A position on the platters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub track: u64,
    /// Sector in its track.
    pub sector: u64,
    /// Sectors of the track.
    pub track_sectors: u64,
}

/// The layout of a disk.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    zones: Vec<Zone>,
    heads: u64,
    pub cylinders: u64,
    pub revolution: u64,
    head_skew: u64,
    cylinder_skew: u64,
}

impl Shape {
    pub fn new(config: &DiskConfig) -> Shape {
        let revolution = config.revolution().0;
        let heads = u64::from(config.heads);
        let (head_skew, cylinder_skew) = (config.head_switch.0, config.seek_track.0);
        // Mean loss of a track to its skew.
        let lost = (head_skew * (heads - 1) + cylinder_skew) / heads;
        let count = u64::from(config.zones);
        // Tracks get shorter from zone to zone by equal steps; each zone has as many cylinders.
        let track_sectors = |zone: u64| {
            let span = config.outer_rate - config.inner_rate;
            let rate = config.outer_rate - span * zone / (count - 1).max(1);
            let bytes = u128::from(rate) * u128::from(revolution + lost) / 1_000_000_000;
            (bytes as u64 / u64::from(config.sector_bytes)).max(1)
        };
        let per_cylinder: u64 = (0..count).map(|zone| track_sectors(zone) * heads).sum();
        let cylinders = config.sectors.div_ceil(per_cylinder);
        let (mut zones, mut lba, mut track) = (Vec::new(), 0, 0);
        for zone in 0..count {
            zones.push(Zone { first_lba: lba, first_track: track, track_sectors: track_sectors(zone) });
            track += cylinders * heads;
            lba += cylinders * heads * track_sectors(zone);
        }
        Shape { zones, heads, cylinders: cylinders * count, revolution, head_skew, cylinder_skew }
    }

    pub fn place(&self, lba: u64) -> Place {
        let zone = &self.zones[self.zones.partition_point(|zone| zone.first_lba <= lba) - 1];
        let within = lba - zone.first_lba;
        Place {
            track: zone.first_track + within / zone.track_sectors,
            sector: within % zone.track_sectors,
            track_sectors: zone.track_sectors,
        }
    }

    pub fn cylinder(&self, track: u64) -> u64 {
        track / self.heads
    }

    /// Where in a revolution the beginning of a sector passes the head.
    pub fn angle(&self, place: Place) -> u64 {
        let cylinder = self.cylinder(place.track);
        // Differences of skews may be negative: the changes of head alone, and those of cylinder.
        let skew = (place.track - cylinder) * self.head_skew + cylinder * self.cylinder_skew;
        (skew + place.sector * self.revolution / place.track_sectors) % self.revolution
    }

    /// Time lost between the end of a track and the beginning of the next.
    fn skew_behind(&self, track: u64) -> u64 {
        if (track + 1).is_multiple_of(self.heads) { self.cylinder_skew } else { self.head_skew }
    }

    /// Time in which `sectors` sectors from `lba` on pass under the heads.
    pub fn transfer(&self, lba: u64, sectors: u64) -> Nanos {
        let (mut place, mut left, mut time) = (self.place(lba), sectors, 0);
        let mut at = lba;
        loop {
            let here = left.min(place.track_sectors - place.sector);
            // From angle to angle, so that rounding does not add up.
            let end = (place.sector + here) * self.revolution / place.track_sectors;
            time += end - place.sector * self.revolution / place.track_sectors;
            left -= here;
            if left == 0 {
                return Nanos(time);
            }
            time += self.skew_behind(place.track);
            at += here;
            place = self.place(at);
        }
    }

    /// Time from the beginning of sector `from` until the track of `lba`, a later one, begins; and the first sector of this track.
    pub fn until_track(&self, from: u64, lba: u64) -> (Nanos, u64) {
        let place = self.place(lba);
        let first = lba - place.sector;
        assert!(from < first, "sector {lba} is on a later track than {from}");
        (self.transfer(from, first - from) + Nanos(self.skew_behind(place.track - 1)), first)
    }

    /// Sectors from `lba` on, at most `most`, that have passed after `time`.
    pub fn passed(&self, lba: u64, most: u64, time: Nanos) -> u64 {
        let (mut place, mut done, mut left) = (self.place(lba), 0, time.0);
        while done < most {
            let rest = place.track_sectors - place.sector;
            let until = |sector: u64| sector * self.revolution / place.track_sectors;
            let passed = |sectors: u64| until(place.sector + sectors) - until(place.sector);
            let whole = passed(rest);
            if left < whole {
                let here = left * place.track_sectors / self.revolution;
                // Rounded to nanoseconds a sector may end a little earlier.
                let here = here + u64::from(passed(here + 1) <= left);
                return (done + here).min(most);
            }
            left -= whole;
            done += rest;
            let skew = self.skew_behind(place.track);
            if left < skew {
                break;
            }
            left -= skew;
            place = self.place(lba + done);
        }
        done.min(most)
    }
}

/// The seek curve: a square root up to a third of the cylinders, a straight line beyond (after Ruemmler and Wilkes, "An Introduction to
/// Disk Drive Modeling", IEEE Computer 27(3), 1994), through the three times that data sheets give.
#[derive(Clone, Debug)]
pub(super) struct SeekCurve {
    knee: f64,
    base: f64,
    root: f64,
    at_knee: f64,
    slope: f64,
}

impl SeekCurve {
    pub fn new(config: &DiskConfig, cylinders: u64) -> SeekCurve {
        let [track, average, full] =
            [config.seek_track, config.seek_average, config.seek_full].map(|time| time.0 as f64);
        let knee = (cylinders as f64 / 3.0).max(2.0);
        let root = (average - track) / (knee.sqrt() - 1.0);
        let slope = (full - average) / (cylinders as f64 - knee).max(1.0);
        SeekCurve { knee, base: track - root, root, at_knee: average, slope }
    }

    /// Time over `distance` cylinders, at least 1.
    pub fn time(&self, distance: u64) -> Nanos {
        let distance = distance as f64;
        Nanos(if distance <= self.knee {
            self.base + self.root * distance.sqrt()
        } else {
            self.at_knee + self.slope * (distance - self.knee)
        } as u64)
    }
}
