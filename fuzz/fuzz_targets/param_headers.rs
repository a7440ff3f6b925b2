#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcpfleet_fuzz::param_headers::check(data));
