#include "host/machine.h"

#include <doctest/doctest.h>

using namespace khost;

TEST_CASE("facts about this machine are plausible") {
  Json facts = machine_facts("/tmp");
  CHECK(facts["cores"].get<int>() >= 1);
  CHECK(facts["memory_bytes"].get<double>() > 1e8);
  CHECK(facts["disk_free_bytes"].get<double>() > 0);
  CHECK_FALSE(facts["kernel"].get<std::string>().empty());
}
