//! libFuzzer's way into the target `stream_entry`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let target = millstream_fuzz::Target::named("stream_entry").expect("the list has it");
    (target.check)(input);
});
