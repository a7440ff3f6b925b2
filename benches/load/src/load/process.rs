//! CPU time and memory of a process and its descendants, from /proc.

use std::fs;

/// The kernel counts CPU time for user space in hundredths of a second (`sysconf(_SC_CLK_TCK)` on Linux).
const MICROS_PER_TICK: u64 = 10_000;

/// What a process and its descendants have used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// CPU time so far, in microseconds.
    cpu_micros: u64,
    /// Resident memory now, in KiB.
    pub(crate) rss_kib: u64,
}

impl Usage {
    /// Reads it; processes that are gone count nothing.
    pub(crate) fn of(pid: u32) -> Self {
        let mut usage = Self {
            cpu_micros: cpu_ticks(pid).unwrap_or_default() * MICROS_PER_TICK,
            rss_kib: 0,
        };
        usage.rss_kib = rss_kib(pid).unwrap_or_default();
        for child in children(pid) {
            let child = Self::of(child);
            usage.cpu_micros += child.cpu_micros;
            usage.rss_kib += child.rss_kib;
        }
        usage
    }

    /// CPU time since `before`, in microseconds.
    pub(crate) fn cpu_micros_since(self, before: Self) -> f64 {
        self.cpu_micros.saturating_sub(before.cpu_micros) as f64
    }
}

fn cpu_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name in brackets, and may have blanks in it. User and system time are fields 14 and 15.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(ticks()? + ticks()?)
}

fn rss_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let lists = threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect()
}
