#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcpfleet_fuzz::envelope::check(data));
