//! Placement handles of a job's writes: fio's `fdp`, `plids` (`fdp_pli`) and `plid_select` (`fdp_pli_select`).
//!
//! A write takes the next handle of the job's list, round-robin or at random; the default list is all handles of the drive.

use super::{Job, JobError};
use pellucid_flash::Rng;

/// Placement handles of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HandleList {
    /// Handle 0, as from a host without placement.
    #[default]
    Off,
    /// All handles of the drive.
    All,
    /// The listed handles.
    These(Vec<u16>),
}

/// Choice of the next handle from the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandleSelect {
    /// `roundrobin`: in turn.
    #[default]
    RoundRobin,
    /// `random`: any.
    Random,
}

/// The handles of a running job.
#[derive(Clone, Debug)]
pub struct Handles {
    list: Vec<u16>,
    next: usize,
    random: Option<Rng>,
}

impl Handles {
    /// Makes the handles of `job` on a drive with `handles` of them.
    ///
    /// # Errors
    /// A handle that the drive does not have, or placement on a drive that offers none.
    pub fn new(job: &Job, handles: u16) -> Result<Handles, JobError> {
        let list: Vec<u16> = match &job.handles {
            HandleList::Off => Vec::new(),
            HandleList::All => (0..handles).collect(),
            HandleList::These(list) => list.clone(),
        };
        if job.handles == HandleList::All && handles < 2 {
            return Err(JobError::Value {
                key: "fdp",
                value: "1".into(),
                allowed: "0, or a drive that takes placement handles (drive.ftl.handles from 2 on)".into(),
            });
        }
        if let Some(wrong) = list.iter().find(|&&handle| handle >= handles) {
            return Err(JobError::Value {
                key: "plids",
                value: wrong.to_string(),
                allowed: format!("0 to {}: the drive has drive.ftl.handles = {handles}", handles - 1),
            });
        }
        let random = (job.handle_select == HandleSelect::Random)
            .then(|| Rng::stream(job.seed.wrapping_add(job.stream.into()), "workload handles"));
        Ok(Handles { list, next: 0, random })
    }

    /// The handle of the next write; there is always one.
    #[inline]
    pub fn choose_next(&mut self) -> u16 {
        if self.list.is_empty() { 0 } else { self.choose() }
    }

    fn choose(&mut self) -> u16 {
        if let Some(random) = &mut self.random {
            return self.list[random.below(self.list.len() as u64) as usize];
        }
        let handle = self.list[self.next];
        self.next = (self.next + 1) % self.list.len();
        handle
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dialect;
    use crate::JobBuilder;

    fn job(keys: &[(&str, &str)]) -> Job {
        let mut builder = JobBuilder::new(Dialect::Fio);
        keys.iter().for_each(|(key, value)| builder.set(key, value).unwrap());
        builder.build().unwrap()
    }

    fn first(job: &Job, handles: u16, count: usize) -> Vec<u16> {
        let mut of = Handles::new(job, handles).unwrap();
        (0..count).map(|_| of.choose_next()).collect()
    }

    #[test]
    fn handles_come_in_turn_or_at_random() {
        assert_eq!(first(&job(&[]), 4, 3), [0, 0, 0]);
        assert_eq!(first(&job(&[("fdp", "1")]), 3, 4), [0, 1, 2, 0]);
        assert_eq!(first(&job(&[("dataplacement", "fdp"), ("plids", "3,1")]), 4, 3), [3, 1, 3]);
        // As in fio, a list alone places nothing.
        assert_eq!(first(&job(&[("fdp_pli", "3,1")]), 4, 3), [0, 0, 0]);
        let random = job(&[("fdp", "1"), ("fdp_pli", "1,2"), ("fdp_pli_select", "random")]);
        let drawn = first(&random, 4, 400);
        let ones = drawn.iter().filter(|&&handle| handle == 1).count();
        assert!(drawn.iter().all(|handle| [1, 2].contains(handle)) && (140..260).contains(&ones), "{ones}");
    }

    #[test]
    fn a_handle_that_the_drive_lacks_is_refused() {
        let error = Handles::new(&job(&[("fdp", "1"), ("plids", "0,4")]), 4).err().unwrap();
        assert_eq!(error.to_string(), "plids = 4: allowed: 0 to 3: the drive has drive.ftl.handles = 4");
        let error = Handles::new(&job(&[("fdp", "1")]), 1).err().unwrap();
        assert!(error.to_string().starts_with("fdp = 1: allowed: 0, or a drive that takes"), "{error}");
        let mut builder = JobBuilder::new(Dialect::Native);
        assert!(builder.set("plids", "1,x").is_err() && builder.set("plids", "128").is_err());
        assert!(builder.set("plid_select", "scheme").is_err());
    }

    #[test]
    fn our_own_jobs_place_by_the_list_alone() {
        let mut builder = JobBuilder::new(Dialect::Native);
        builder.set("plids", "2").unwrap();
        assert_eq!(builder.build().unwrap().handles, HandleList::These(vec![2]));
        builder.set("fdp", "0").unwrap();
        assert_eq!(builder.build().unwrap().handles, HandleList::Off);
    }
}
