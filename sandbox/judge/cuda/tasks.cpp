#include "sandbox/judge/cuda/tasks.h"

#include <algorithm>
#include <numeric>

#include "host/base/sha256.h"

namespace khost::judge::gpu {
namespace {

constexpr std::size_t kMostTasks = 1024;    // each some kilobytes without its sets
constexpr std::size_t kMostWithSets = 256;  // a set is a mapping of its own
// Tasks whose baseline processes are kept: with every context the driver takes longer to create the next one.
constexpr std::size_t kMostWithResidents = 8;
constexpr std::size_t kContextBytes = std::size_t{640} << 20;  // of a process with PyTorch on the device, empty

}  // namespace

std::size_t Task::resident_count() const {
  return static_cast<std::size_t>(
      std::count_if(residents.begin(), residents.end(), [](const auto& one) { return one.second != nullptr; }));
}

// Besides its context, each process has inputs and state of its own and the outputs of two calls.
std::size_t Task::resident_bytes() const {
  return resident_count() * (kContextBytes + 2 * session->set_bytes());
}

std::vector<std::size_t> to_give_up(const std::vector<Kept>& all, std::size_t most, std::size_t bytes) {
  std::vector<std::size_t> order(all.size()), result;
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return all[a].needed != all[b].needed ? all[a].needed : all[a].used > all[b].used;
  });
  std::size_t count = 0, taken = 0;
  for (const std::size_t i : order) {
    count++;
    taken += all[i].bytes;
    if (!all[i].needed && (count > most || taken > bytes)) {
      result.push_back(i);
    }
  }
  return result;
}

std::shared_ptr<Task> Tasks::known(const std::string& source) {
  const std::string hash = sha256_hex(source);
  const std::scoped_lock lock(mutex_);
  const auto found =
      std::find_if(tasks_.begin(), tasks_.end(), [&](const auto& task) { return task->session->hash() == hash; });
  if (found == tasks_.end()) {
    return nullptr;
  }
  if ((*found)->resets != device_resets()) {
    tasks_.erase(found);
    return nullptr;
  }
  tasks_.splice(tasks_.begin(), tasks_, found);
  return tasks_.front();
}

Result<std::shared_ptr<Task>> Tasks::get(const std::string& source, const Open& open) {
  const KeyedMutex::Lock opening(opening_, source);
  return get_now(source, open);
}

Result<std::shared_ptr<Task>> Tasks::get_now(const std::string& source, const Open& open) {
  if (std::shared_ptr<Task> task = known(source)) {
    return task;
  }
  auto made = std::make_shared<Task>();  // before the opening: the device may be lost and reset behind it
  Result<std::shared_ptr<Session>> session = open();
  if (!session) {
    return session.failure();
  }
  made->session = *session;
  const std::scoped_lock lock(mutex_);
  tasks_.push_front(made);
  return made;
}

void Tasks::to_front(const std::shared_ptr<Task>& used) {
  const auto place = std::find(tasks_.begin(), tasks_.end(), used);
  if (place != tasks_.end()) {
    tasks_.splice(tasks_.begin(), tasks_, place);
  }
}

void Tasks::make_room(const std::shared_ptr<Task>& used, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  to_front(used);
  std::size_t taken = used ? used->session->batch_bytes() : 0, place = 0, with_sets = 0;
  tasks_.remove_if([&](const std::shared_ptr<Task>& task) {
    const std::size_t own = task == used ? 0 : task->session->bytes();
    if (own > 0 && (taken + own > bytes || with_sets >= kMostWithSets)) {
      task->session->forget_sets();
    } else {
      taken += own;
      with_sets += own > 0;
    }
    return ++place > kMostTasks;
  });
}

void Tasks::retire_residents(const std::shared_ptr<Task>& used, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  std::vector<Task*> with;
  std::vector<Kept> kept;
  for (const auto& task : tasks_) {
    if (task->resident_count() > 0) {
      with.push_back(task.get());
      kept.push_back({task->resident_bytes(), task->residents_used, task == used});
    }
  }
  for (const std::size_t i : to_give_up(kept, kMostWithResidents, bytes)) {
    with[i]->residents.clear();
  }
}

void Tasks::clear() {
  const std::scoped_lock lock(mutex_);
  tasks_.clear();
}

}  // namespace khost::judge::gpu
