//! libFuzzer's way into the target `event_body`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let target = millstream_fuzz::Target::named("event_body").expect("the list has it");
    (target.check)(input);
});
