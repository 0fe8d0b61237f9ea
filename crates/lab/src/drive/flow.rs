//! fio's `flow`: the I/Os of the jobs of a group keep to the ratio of their weights.
//!
//! A job waits while its share of the I/Os of its group exceeds its share of the weights. So the group as a whole never stands still:
//! not all of its jobs can be ahead.

use pellucid_workload::Flow;

/// The jobs of one `flow_id` that have started and not ended.
#[derive(Clone, Copy, Debug)]
struct Group {
    id: u32,
    weight: u64,
    /// One more than the I/Os of its jobs.
    count: u64,
}

/// A job in its group.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    group: usize,
    weight: u64,
    count: u64,
}

/// All groups.
#[derive(Clone, Debug, Default)]
pub struct Flows(Vec<Group>);

impl Flows {
    /// A job starts.
    pub fn join(&mut self, flow: Flow) -> Member {
        let weight = u64::from(flow.weight);
        let group = self.0.iter().position(|group| group.id == flow.group).unwrap_or_else(|| {
            self.0.push(Group { id: flow.group, weight: 0, count: 1 });
            self.0.len() - 1
        });
        self.0[group].weight += weight;
        Member { group, weight, count: 0 }
    }

    /// Reports whether a job is ahead of the others.
    pub fn is_ahead(&self, member: &Member) -> bool {
        let group = &self.0[member.group];
        u128::from(member.count) * u128::from(group.weight)
            > u128::from(member.weight) * u128::from(group.count)
    }

    /// A job has submitted an I/O.
    pub fn count(&mut self, member: &mut Member) {
        member.count += 1;
        self.0[member.group].count += 1;
    }

    /// A job has ended.
    pub fn leave(&mut self, member: Member) {
        let group = &mut self.0[member.group];
        group.weight -= member.weight;
        group.count -= member.count;
    }
}
