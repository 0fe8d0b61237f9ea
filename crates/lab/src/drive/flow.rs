//! fio's `flow`: the jobs of a group keep their I/Os in the ratio of their weights.
//!
//! A job waits while its share of the group's I/Os exceeds its share of the weights. The group as a whole never stops, because not all of its jobs
//! can be ahead.

use pellucid_workload::Flow;

/// The jobs of one `flow_id` that have started and not ended.
#[derive(Clone, Copy, Debug)]
struct Group {
    id: u32,
    weight: u64,
    /// One more than the I/Os of its jobs.
    count: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Member {
    group: usize,
    weight: u64,
    count: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Flows(Vec<Group>);

impl Flows {
    /// Adds a job that starts.
    pub fn join(&mut self, flow: Flow) -> Member {
        let weight = u64::from(flow.weight);
        let group = self.0.iter().position(|group| group.id == flow.group).unwrap_or_else(|| {
            self.0.push(Group { id: flow.group, weight: 0, count: 1 });
            self.0.len() - 1
        });
        self.0[group].weight += weight;
        Member { group, weight, count: 0 }
    }

    /// Returns whether a job is ahead of the others.
    pub fn is_ahead(&self, member: &Member) -> bool {
        let group = &self.0[member.group];
        u128::from(member.count) * u128::from(group.weight)
            > u128::from(member.weight) * u128::from(group.count)
    }

    /// Counts a submitted I/O of a job.
    pub fn count(&mut self, member: &mut Member) {
        member.count += 1;
        self.0[member.group].count += 1;
    }

    /// Removes a job that has ended.
    pub fn leave(&mut self, member: Member) {
        let group = &mut self.0[member.group];
        group.weight -= member.weight;
        group.count -= member.count;
    }
}
