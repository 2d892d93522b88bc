@echo off
"%~dp0@NAME@.exe" %*
