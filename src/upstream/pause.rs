//! Pauses before something is tried again.

use std::time::Duration;

/// `pause`, up to a quarter longer, so that many upstreams of one failed host do not come back at once.
pub(super) fn jittered(pause: Duration) -> Duration {
    let mut byte = [0u8; 1];
    let filled = aws_lc_rs::rand::fill(&mut byte).is_ok();
    let [random] = byte;
    let random = if filled { random } else { 0 };
    pause + pause * u32::from(random) / 1024
}
