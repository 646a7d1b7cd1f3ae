// Records of a profiled process as the judge reads them: what a hostile process may write there, and what the table
// says of honest ones. No GPU is needed.
#include <doctest/doctest.h>
#include <string.h>

#include <algorithm>
#include <random>
#include <vector>

#include "sandbox/profiler/profile.h"
#include "sandbox/profiler/trace.h"

using namespace khost;
using namespace khost::profiler;

namespace {

// As the collector leaves a page behind.
class Page {
 public:
  Page() : bytes_(kPageBytes) { header().magic = kMagic; }
  PageHeader& header() { return *reinterpret_cast<PageHeader*>(bytes_.data()); }
  PageRecord& record(std::size_t i) {
    return *reinterpret_cast<PageRecord*>(bytes_.data() + kRecordsOffset + i * sizeof(PageRecord));
  }
  std::byte* names() { return bytes_.data() + kNamesOffset; }

  PageRecord& add(std::uint32_t call, std::uint64_t start_ns, std::uint64_t length_ns, const std::string& name) {
    const std::uint32_t i = header().records.fetch_add(1);
    const auto offset = static_cast<std::uint32_t>(name_bytes_);
    memcpy(names() + offset, name.c_str(), name.size() + 1);
    name_bytes_ += name.size() + 1;
    PageRecord& r = record(i);
    r = {static_cast<std::uint32_t>(Activity::kernel),
         call,
         start_ns,
         start_ns + length_ns,
         {64, 1, 1},
         {256, 1, 1},
         32,
         1024,
         0,
         offset,
         0};
    return r;
  }
  Result<Trace> read() const { return read_trace(bytes_.data(), bytes_.size()); }
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
  std::size_t name_bytes_ = 0;
};

const Limits kH100{132, 2048, 32, 65536, 233472, 1024};

Kernel kernel_of(std::uint32_t threads, std::uint32_t registers, std::uint64_t shared) {
  Kernel kernel;
  kernel.grid = {1000, 1, 1};
  kernel.block = {threads, 1, 1};
  kernel.registers = registers;
  kernel.static_shared = shared;
  return kernel;
}

}  // namespace

TEST_CASE("records of a profiled process come back as they were written") {
  Page page;
  page.add(1, 1000, 500, "void scale<float>(float*)");
  PageRecord& copy = page.add(2, 2000, 100, "[copy]");
  copy.activity = static_cast<std::uint32_t>(Activity::copy);
  copy.bytes = 4096;
  Result<Trace> trace = page.read();
  REQUIRE(trace);
  REQUIRE(trace->records.size() == 2);
  CHECK(trace->records[0].name == "void scale<float>(float*)");
  CHECK(trace->records[0].end_ns - trace->records[0].start_ns == 500);
  CHECK(trace->records[0].block[0] == 256);
  CHECK(trace->records[0].static_shared == 1024);
  CHECK(trace->records[1].activity == Activity::copy);
  CHECK(trace->records[1].bytes == 4096);
  CHECK(trace->dropped == 0);
  CHECK(trace->malformed == 0);
}

TEST_CASE("a profiled process cannot make the judge believe records that no device makes") {
  const std::vector<void (*)(PageRecord&)> lies = {
      [](PageRecord& r) { r.activity = 0; },
      [](PageRecord& r) { r.activity = 77; },
      [](PageRecord& r) { r.call = 0; },
      [](PageRecord& r) { r.end_ns = r.start_ns - 1; },
      [](PageRecord& r) { r.end_ns = ~0ull; },
      [](PageRecord& r) { r.name = static_cast<std::uint32_t>(kNameBytes); },
      [](PageRecord& r) { r.name = ~0u; },
      [](PageRecord& r) { r.grid[1] = 0; },
      [](PageRecord& r) { r.grid[0] = ~0u; },
      [](PageRecord& r) { r.block[0] = 2048; },
      [](PageRecord& r) { r.block[1] = 1024; },
      [](PageRecord& r) { r.block[2] = 0; },
      [](PageRecord& r) { r.registers = 1u << 20; },
      [](PageRecord& r) { r.static_shared = ~0u; },
      [](PageRecord& r) { r.dynamic_shared = ~0u; },
  };
  for (std::size_t i = 0; i < lies.size(); i++) {
    Page page;
    page.add(1, 1000, 500, "honest");
    lies[i](page.add(1, 2000, 500, "lie"));
    Result<Trace> trace = page.read();
    REQUIRE(trace);
    CAPTURE(i);
    CHECK(trace->malformed == 1);
    REQUIRE(trace->records.size() == 1);
    CHECK(trace->records[0].name == "honest");
  }
}

TEST_CASE("a name without an end stops at the end of the names, and a long one is cut") {
  Page page;
  memset(page.names(), 'x', kNameBytes);
  page.header().records = 2;
  page.record(0) = {1, 1, 0, 1, {1, 1, 1}, {1, 1, 1}, 1, 0, 0, static_cast<std::uint32_t>(kNameBytes - 5), 0};
  page.record(1) = {1, 1, 0, 1, {1, 1, 1}, {1, 1, 1}, 1, 0, 0, 7, 0};
  Result<Trace> trace = page.read();
  REQUIRE(trace);
  REQUIRE(trace->records.size() == 2);
  CHECK(trace->records[0].name == "xxxxx");
  CHECK(trace->records[1].name.size() == kLongestName);
}

TEST_CASE("names with escapes, line ends or broken UTF-8 become printable, so that table and JSON stay whole") {
  Page page;
  page.add(1, 0, 10, "\x1b[2Jowned\n\xff\xfe\xc3(");
  Result<Trace> trace = page.read();
  REQUIRE(trace);
  CHECK(trace->records[0].name == "?[2Jowned" + std::string(4, '?') + "(");
  Profile profile;
  profile.sides["candidate"] = summarize(*trace, 1);
  CHECK_NOTHROW(to_json(profile).dump());
  const std::string text = to_text(profile);
  CHECK(std::all_of(text.begin(), text.end(), [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
}

TEST_CASE("a count beyond the page is cut to what the page holds, and says what is missing") {
  Page page;
  page.header().records = ~0u;
  page.header().dropped = 5;
  Result<Trace> trace = page.read();
  REQUIRE(trace);
  CHECK(trace->records.empty());
  CHECK(trace->malformed == kMostRecords);
  CHECK(trace->dropped == std::uint64_t{~0u} - kMostRecords + 5);
}

TEST_CASE("a page of noise is read without harm") {
  std::mt19937_64 draw(7);
  for (int round = 0; round < 20; round++) {
    Page page;
    for (std::size_t i = 0; i + 8 <= page.bytes().size(); i += 8) {
      const std::uint64_t word = draw();
      memcpy(page.bytes().data() + i, &word, sizeof word);
    }
    page.header().magic = kMagic;
    page.header().failed = round % 2;
    Result<Trace> trace = page.read();
    if (round % 2 == 1) {
      REQUIRE_FALSE(trace);
      CHECK(trace.failure().message.size() <= sizeof(PageHeader::message));
      continue;
    }
    REQUIRE(trace);
    Profile profile;
    profile.sides["candidate"] = summarize(*trace, 1);
    profile.limits = kH100;
    CHECK_NOTHROW(to_json(profile).dump());
    to_text(profile);
  }
}

TEST_CASE("a page that nobody set up, or of another size, is refused; a collector that failed is quoted") {
  Page page;
  page.header().magic = 0;
  CHECK(page.read().failure().code == "bad_input");
  CHECK(read_trace(page.bytes().data(), 4096).failure().code == "bad_input");
  page.header().magic = kMagic;
  page.header().failed = 1;
  strcpy(page.header().message, "CUPTI does not load: no such file");
  CHECK(page.read().failure().message == "CUPTI does not load: no such file");
  memset(page.header().message, 'y', sizeof page.header().message);
  CHECK(page.read().failure().message.size() == sizeof page.header().message);
}

TEST_CASE("a side is what one call launches: warm-up left out, medians over calls, the longest kernel first") {
  Page page;
  for (std::uint32_t call = 1; call <= 5; call++) {
    const std::uint64_t slow = call <= 2 ? 900000 : 0;  // warm-up
    page.add(call, call * 10000000, 1000 + slow, "small");
    page.add(call, call * 10000000 + 2000 + slow, 3000 + call, "large");
    page.add(call, call * 10000000 + 6000 + slow, 1000, "small");
  }
  const Side side = summarize(*page.read(), 3);
  CHECK(side.calls == 3);
  CHECK(side.launches == doctest::Approx(3));
  REQUIRE(side.kernels.size() == 2);
  CHECK(side.kernels[0].name == "large");
  CHECK(side.kernels[0].seconds == doctest::Approx(3004e-9));
  CHECK(side.kernels[1].launches == doctest::Approx(2));
  CHECK(side.kernels[1].seconds == doctest::Approx(2000e-9));
  CHECK(side.busy_s == doctest::Approx(5004e-9));
  CHECK(side.span_s == doctest::Approx(7000e-9));
}

TEST_CASE("occupancy follows threads, registers and shared memory, whichever runs out first") {
  CHECK(resident_blocks(kernel_of(256, 32, 0), kH100) == 8);
  CHECK(occupancy(kernel_of(256, 32, 0), kH100) == doctest::Approx(1));
  CHECK(resident_blocks(kernel_of(256, 64, 0), kH100) == 4);
  CHECK(resident_blocks(kernel_of(256, 255, 0), kH100) == 1);
  CHECK(occupancy(kernel_of(256, 255, 0), kH100) == doctest::Approx(0.125));
  CHECK(resident_blocks(kernel_of(128, 32, 100 * 1024), kH100) == 2);
  CHECK(resident_blocks(kernel_of(32, 16, 0), kH100) == 32);
  CHECK(resident_blocks(kernel_of(1024, 128, 0), kH100) == 0);
  CHECK(occupancy(kernel_of(256, 32, 0), Limits{}) == 0);
}

TEST_CASE("counters are the administrator's unless the driver opens them") {
  CHECK_FALSE(counters_of("Foo: 1\nRmProfilingAdminOnly: 1\n", false).allowed);
  CHECK(counters_of("RmProfilingAdminOnly: 1\n", true).allowed);
  CHECK(counters_of("RmProfilingAdminOnly: 0\n", false).allowed);
  CHECK_FALSE(counters_of("", true).allowed);
  CHECK(counters_of("RmProfilingAdminOnly: 1\n", false).why.find("RmProfilingAdminOnly") != std::string::npos);
}

TEST_CASE("the table keeps to its lines however many kernels there are, and the shares are of the measured ceilings") {
  Profile profile;
  profile.limits = kH100;
  profile.candidate_s = 1e-3;
  profile.times = {{"eager", 2e-3}};
  profile.bytes = 1.5e9;
  profile.flops = 3e10;
  profile.ceilings = {3e12, 6e13, {{"float32", 5e13}, {"bfloat16", 7.5e14}}, ""};
  for (const char* name : {"candidate", "eager", "compile"}) {
    Page page;
    for (int i = 0; i < 60; i++) {
      page.add(1, 1000 * static_cast<std::uint64_t>(i), 900, "kernel_" + std::to_string(i));
    }
    page.header().dropped = 1;
    profile.sides[name] = summarize(*page.read(), 1);
  }
  const std::string text = to_text(profile);
  CHECK(std::count(text.begin(), text.end(), '\n') <= 34);
  CHECK(text.find("1500 GB/s, 50%") != std::string::npos);
  CHECK(text.find("30.0 TFLOP/s: 50% of fp32 FMA's 60") != std::string::npos);
  CHECK(text.find("51 more") != std::string::npos);
  const Json json = to_json(profile);
  CHECK(json["rates"]["candidate"]["bandwidth_share"].get<double>() == doctest::Approx(0.5));
  CHECK(json["rates"]["candidate"]["flop_share"]["bfloat16"].get<double>() == doctest::Approx(0.04));
  CHECK(json["rates"]["eager"]["bandwidth_share"].get<double>() == doctest::Approx(0.25));
  CHECK(json["sides"]["candidate"]["kernels"].size() == 60);
}
