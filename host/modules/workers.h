// Threads for calls that block for long, such as a command in a shell: as many as are busy at once, so that a hundred
// slow episodes do not wait for each other (the host's pool has a fixed, small number). Any thread may call submit.
#pragma once

#include <functional>

namespace khost {

void submit_blocking(std::function<void()> work);

// Waits until all submitted work has ended. The host calls it before what the work answers to is destroyed.
void finish_blocking();

}  // namespace khost
