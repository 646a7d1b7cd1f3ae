#pragma once
#include <khost_pybind.h>
